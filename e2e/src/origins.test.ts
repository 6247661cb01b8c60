import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Authority, bytesOf, MiB, needsPrograms, sha256, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import {
  type Handler,
  S3Server,
  type ScriptedServer,
  sendFile,
  sendJson,
  startServer,
} from '@hearth/common/testing/origins';

interface Summary {
  summary: { mismatches: number; bytes: number; originBytes: number; peerBytes: number; localBytes: number };
}

describe('origins through real agents', () => {
  let cluster: Cluster;
  const body = bytesOf(1, 9 * MiB + 5);
  let names = 0;

  before(async () => {
    cluster = await Cluster.start(['a', 'b']);
  });
  after(async () => cluster?.close());

  const add = async (...source: string[]): Promise<string> => {
    const name = `d${names++}`;
    await cluster.json('a', 'dataset', 'add', name, ...source);
    return name;
  };
  const verified = async (agent: string, name: string): Promise<Summary['summary']> => {
    const { summary } = await cluster.json<Summary>(agent, 'verify', name);
    assert.equal(summary.mismatches, 0);
    return summary;
  };

  it('a directory whose file changes: the revision fails, and old bytes stay whole', async () => {
    const folder = join(cluster.folder, 'origin');
    writeSample(folder, { here: 6 * MiB, changed: 20 * MiB });
    const name = await add(folder);
    await cluster.json('a', 'warm', name, 'here');
    writeFileSync(join(folder, 'changed'), bytesOf(99, 20 * MiB));
    utimesSync(join(folder, 'changed'), 1, 1);
    const { code, stderr } = await cluster.hearth('b', 'cat', name, 'changed');
    assert.equal(code, 10, stderr);
    const { summary } = await cluster.json<Summary>('a', 'verify', name, 'here');
    assert.equal(summary.mismatches, 0);
    const dataset = await cluster.json<{ state: string; message: string }>('a', 'dataset', 'show', name);
    assert.equal(dataset.state, 'Failed', dataset.message);
    assert.match(dataset.message, /changed/);
  });

  it('a directory in which a link takes the place of a folder: no reader is led elsewhere', async () => {
    const folder = join(cluster.folder, 'tenant');
    const elsewhere = join(cluster.folder, 'elsewhere');
    writeSample(folder, { 'sub/file': MiB, 'other/file': MiB });
    const name = await add(folder);
    // The very file that was listed, with its times: only the way to it is another.
    renameSync(join(folder, 'sub'), elsewhere);
    symlinkSync(elsewhere, join(folder, 'sub'));
    const { code, stderr } = await cluster.hearth('a', 'cat', name, 'sub/file');
    assert.notEqual(code, 0);
    assert.match(stderr, /a symbolic link leads there, or out of its directory, and is not followed/);
    assert.equal((await cluster.hearth('a', 'cat', name, 'other/file')).code, 0);
  });

  describe('HTTP', () => {
    let server: ScriptedServer;
    before(async () => {
      server = await startServer();
    });
    after(() => server?.stop());
    const file: Handler = (request, response) => sendFile(request, response, body, { etag: '"1"' });
    /** A file of its own for each test, since caches are kept. */
    const addFile = (path: string) => add(`${server.url}/${path}`, '--allow-private');

    it('is read once by two agents', async () => {
      server.handler = file;
      const name = await addFile('plain.bin');
      await cluster.json('a', 'warm', name);
      const [a, b] = await Promise.all([verified('a', name), verified('b', name)]);
      assert.deepEqual([a.localBytes, b.localBytes], [body.length, body.length]);
    });

    for (const [status, exit] of [
      [404, 3],
      [403, 5],
    ] as const) {
      it(`${status}, when it is added and when it is read`, async () => {
        server.handler = (_request, response) => response.writeHead(status).end();
        const refused = await cluster.hearth('a', 'dataset', 'add', 'x', `${server.url}/x`, '--allow-private');
        assert.equal(refused.code, exit, refused.stderr);
        server.handler = file;
        const name = await addFile(`later-${status}`);
        server.handler = (_request, response) => response.writeHead(status).end();
        const read = await cluster.hearth('a', 'warm', name);
        assert.ok([exit, 10].includes(read.code), `${read.code}: ${read.stderr}`);
      });
    }

    it('429 and 503 for a while are waited for', async () => {
      server.handler = file;
      const name = await addFile('busy');
      let refusals = 4;
      server.handler = (request, response) => {
        if (refusals-- <= 0) return file(request, response);
        return response.writeHead(refusals % 2 === 0 ? 503 : 429, { 'retry-after': '1' }).end();
      };
      await cluster.json('a', 'warm', name, '--node', 'a');
      assert.equal((await verified('a', name)).localBytes, body.length);
    });

    it('bodies that break off are fetched to the end', async () => {
      server.handler = file;
      const name = await addFile('torn');
      let torn = 0;
      server.handler = (request, response) => {
        if (request.method !== 'GET' || torn++ >= 3) return file(request, response);
        const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
        const [first, last] = [Number(range?.[1] ?? 0), Number(range?.[2] ?? body.length - 1)];
        response.writeHead(range === null ? 200 : 206, {
          etag: '"1"',
          'content-length': last - first + 1,
          ...(range === null ? {} : { 'content-range': `bytes ${first}-${last}/${body.length}` }),
        });
        response.write(body.subarray(first, first + 70_000), () => response.destroy());
        return response;
      };
      await cluster.json('a', 'warm', name, '--node', 'a');
      assert.equal((await verified('a', name)).localBytes, body.length);
      assert.ok(torn > 3);
    });

    it('a server that ignores ranges gives right bytes or a clear refusal', async () => {
      server.handler = (request, response) =>
        sendFile(request, response, body, { etag: '"1"', 'accept-ranges': undefined });
      const added = await cluster.hearth('a', 'dataset', 'add', 'whole', `${server.url}/whole`, '--allow-private');
      if (added.code !== 0) return assert.match(added.stderr, /range/i);
      const warm = await cluster.hearth('a', 'warm', 'whole', '--node', 'a');
      if (warm.code !== 0) return assert.match(warm.stderr + warm.stdout, /range/i);
      assert.equal((await verified('a', 'whole')).localBytes, body.length);
    });

    it('an ETag that changes fails the revision; old and new bytes are never mixed', async () => {
      server.handler = file;
      const name = await addFile('changing');
      const first = await cluster.hearth('a', 'cat', name, 'changing', '--length', '65536');
      assert.equal(first.code, 0, first.stderr);
      const other = bytesOf(2, body.length);
      server.handler = (request, response) => sendFile(request, response, other, { etag: '"2"' });
      // Another agent, which has none of it, may find chunks at the first; what it gives is of the old state.
      const read = await cluster
        .json<{ summary: { bytes: number } }>('a', 'dataset', 'show', name)
        .then(() => cluster.hearth('b', 'warm', name, '--node', 'b'));
      if (read.code === 0) {
        const { stdout } = await cluster.hearth('b', '--json', 'verify', name);
        assert.match(stdout, new RegExp(sha256(body)));
      } else assert.equal(read.code, 10, read.stderr);
    });

    it('a certificate that is not trusted is refused, one that is configured is accepted', async () => {
      const authority = Authority.create();
      const secure = await startServer(authority.issue({ names: ['127.0.0.1'] }));
      try {
        secure.handler = file;
        const url = `${secure.url}/secure.bin`;
        const refused = await cluster.hearth('a', 'dataset', 'add', 's', url, '--allow-private');
        assert.notEqual(refused.code, 0);
        assert.match(refused.stderr, /certificate/);
        await cluster.add('t', { flags: ['--origins-certificate-authorities', authority.certificate] });
        await cluster.json('t', 'dataset', 'add', 's', url, '--allow-private');
        await cluster.json('t', 'warm', 's', '--node', 't');
        assert.equal((await verified('t', 's')).localBytes, body.length);
      } finally {
        await cluster.agents.get('t')?.stop();
        await secure.stop();
        authority.remove();
      }
    });

    it('a hub: files by redirect, each with its digest', async () => {
      const commit = createHash('sha1').update('commit').digest('hex');
      const resolve = `/org/m/resolve/${commit}/`;
      server.handler = (request, response) => {
        if (request.url === '/api/models/org/m/revision/main') return sendJson(response, { sha: commit, siblings: [] });
        if (request.url?.startsWith(`/api/models/org/m/tree/${commit}`)) {
          const oid = sha256(body);
          return sendJson(response, [
            { type: 'file', oid, size: body.length, path: 'm.bin', lfs: { oid, size: body.length } },
          ]);
        }
        if (request.url === `${resolve}m.bin`) {
          return response.writeHead(302, { location: `${server.url}/blob?X-Amz-Signature=secret` }).end();
        }
        if (request.url?.startsWith('/blob')) return file(request, response);
        return response.writeHead(404).end();
      };
      const name = await add('hf://org/m', '--endpoint', server.url, '--allow-private');
      await cluster.json('a', 'warm', name, '--verify', 'digest');
      assert.equal((await verified('b', name)).localBytes, body.length);
    });
  });

  it('S3', async function () {
    const server = await needsPrograms(this, () => S3Server.start());
    const { endpoint, keys } = server;
    const client = new S3Client({ endpoint, credentials: keys, region: 'us-east-1', forcePathStyle: true });
    try {
      await client.send(new CreateBucketCommand({ Bucket: 'models' }));
      for (const [key, size] of [
        ['m/one', 9 * MiB],
        ['m/sub/two', 5],
      ] as const) {
        await client.send(new PutObjectCommand({ Bucket: 'models', Key: key, Body: bytesOf(3, size) }));
      }
      await cluster.add('s3', { environment: server.environment });
      const source = ['s3://models/m', '--endpoint', endpoint, '--allow-private'];
      await cluster.json('s3', 'dataset', 'add', 'bucket', ...source);
      await cluster.json('s3', 'warm', 'bucket', '--node', 's3');
      const files = await cluster.jsonLines<{ path?: string; sha256: string }>('s3', 'verify', 'bucket', '--origin');
      assert.equal(files.find((row) => row.path === 'one')?.sha256, sha256(bytesOf(3, 9 * MiB)));
    } finally {
      client.destroy();
      await cluster.agents.get('s3')?.stop();
      await server.stop();
    }
  });
});
