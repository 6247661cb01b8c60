import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, PutBucketVersioningCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { bytesOf, MiB, needsPrograms, type Outcome, root, run, sha256 } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { S3Server, type ScriptedServer, sendFile, sendJson, startServer } from '@hearth/common/testing/origins';

// The origin has another state after the first chunk was read. HTTP servers with ETags are in origins.test.ts.
describe('an origin that changes between two chunks of a file', () => {
  let cluster: Cluster;
  const listed = bytesOf(1, 9 * MiB + 5);
  const other = bytesOf(2, listed.length);

  before(async () => {
    cluster = await Cluster.start(['a']);
  });
  after(async () => cluster?.close());

  /** `hearth cat`, and what it wrote. */
  const cat = async (agent: string, ...args: string[]): Promise<Outcome & { bytes: Buffer }> => {
    const file = join(cluster.folder, 'out');
    const program = join(root, 'cli/bin/hearth');
    const words = ['-c', 'out=$1; shift; exec "$@" > "$out"', 'sh', file, program];
    const outcome = await run('sh', [...words, '--socket', cluster.agent(agent).socket, 'cat', ...args]);
    return { ...outcome, bytes: readFileSync(file) };
  };
  const readFirstChunk = async (agent: string, name: string, path: string): Promise<void> => {
    const { code, stderr, bytes } = await cat(agent, name, path, '--length', '65536');
    assert.equal(code, 0, stderr);
    assert.ok(bytes.equals(listed.subarray(0, 65_536)));
  };
  /** The reader sees whole chunks of the listed state, the change, and the next step. */
  const assertRefused = async (agent: string, name: string, path: string): Promise<void> => {
    const { code, stderr, bytes } = await cat(agent, name, path);
    assert.equal(code, 10, stderr);
    assert.match(stderr, /changed since it was listed: add the dataset again/);
    assert.ok(bytes.length < listed.length && bytes.equals(listed.subarray(0, bytes.length)), 'no byte of the other');
    const { state, message } = await cluster.json<{ state: string; message: string }>(agent, 'dataset', 'show', name);
    assert.equal(state, 'Failed', message);
    assert.match(message, new RegExp(`no longer has ${path} as it was listed: .*add the dataset again`));
  };

  /** Where nothing but the digest of the file shows it: it is not served when all of it has come. */
  const assertDiffers = async (name: string, path: string): Promise<void> => {
    const warm = await cluster.hearth('a', 'warm', name, '--node', 'a');
    assert.notEqual(warm.code, 0);
    assert.ok(warm.stdout.concat(warm.stderr).includes(`${path}: `), warm.stderr);
    assert.match(warm.stdout + warm.stderr, /differs from the digest .*list it again/);
    const { code, stderr, bytes } = await cat('a', name, path);
    assert.notEqual(code, 0, 'it is not served any more');
    assert.match(stderr, /differs from the digest .*list it again/);
    assert.equal(bytes.length, 0);
  };
  /** The origin was put right: what was mixed is gone from the disk, too. */
  const assertWhole = async (name: string): Promise<void> => {
    await cluster.json('a', 'evict', name);
    await cluster.json('a', 'warm', name, '--node', 'a');
    const { summary } = await cluster.json<{ summary: { mismatches: number } }>('a', 'verify', name);
    assert.equal(summary.mismatches, 0);
  };

  describe('a directory', () => {
    /** One with the file as it is listed, of which the first chunk was read. */
    const add = async (name: string): Promise<string> => {
      const folder = join(cluster.folder, name);
      mkdirSync(folder);
      writeFileSync(join(folder, 'one'), listed);
      await cluster.json('a', 'dataset', 'add', name, folder);
      await readFirstChunk('a', name, 'one');
      return join(folder, 'one');
    };

    it('whose file is written over is refused, though its size and its time of change are set back', async () => {
      const path = await add('rewritten');
      const { atime, mtime } = statSync(path);
      writeFileSync(path, other);
      utimesSync(path, atime, mtime);
      await assertRefused('a', 'rewritten', 'one');
    });

    it('whose file another one takes the place of is refused, though that has the same times', async () => {
      const path = await add('replaced');
      const { atime, mtime } = statSync(path);
      writeFileSync(`${path}.new`, other);
      utimesSync(`${path}.new`, atime, mtime);
      renameSync(`${path}.new`, path);
      await assertRefused('a', 'replaced', 'one');
    });
  });

  describe('an HTTP server, with the digest of the file in the source', () => {
    let server: ScriptedServer;
    let stored: Buffer;
    /** Headers that the server sends with the bytes. */
    let headers: Record<string, string | undefined>;

    before(async () => {
      server = await startServer();
      server.handler = (request, response) => sendFile(request, response, stored, headers);
    });
    after(() => server?.stop());

    const add = async (name: string, sent: typeof headers): Promise<void> => {
      [stored, headers] = [listed, sent];
      const digest = ['--sha256', `${name}=${sha256(listed)}`];
      await cluster.json('a', 'dataset', 'add', name, `${server.url}/${name}`, ...digest, '--allow-private');
      await readFirstChunk('a', name, name);
    };

    it('that sends an ETag: notices changes by that, before any byte of the other state', async () => {
      await add('tagged', { etag: '"1"' });
      [stored, headers] = [other, { etag: '"2"' }];
      await assertRefused('a', 'tagged', 'tagged');
    });

    it('that sends nothing of the kind: the digest shows it, and bytes of two states are not served as a file', async () => {
      const silent = { 'last-modified': undefined };
      await add('silent', silent);
      stored = other;
      await assertDiffers('silent', 'silent');
      stored = listed;
      await assertWhole('silent');
    });
  });

  describe('a hub', () => {
    let server: ScriptedServer;
    /** Of the only file, in large file storage or not, and what is at the end of its redirect. */
    let path: string;
    let stored: Buffer;
    let etag: string;
    let large: boolean;
    const commit = createHash('sha1').update('commit').digest('hex');
    const gitId = createHash('sha1').update('git').digest('hex');

    before(async () => {
      server = await startServer();
      server.handler = (request, response) => {
        if (request.url === '/api/models/org/m/revision/main') return sendJson(response, { sha: commit, siblings: [] });
        if (request.url?.startsWith(`/api/models/org/m/tree/${commit}`)) {
          const lfs = large ? { lfs: { oid: sha256(listed), size: listed.length } } : {};
          return sendJson(response, [{ type: 'file', oid: gitId, size: listed.length, path, ...lfs }]);
        }
        if (request.url === `/org/m/resolve/${commit}/${path}`)
          return response.writeHead(302, { location: `${server.url}/blob` }).end();
        if (request.url === '/blob') return sendFile(request, response, stored, { etag });
        return response.writeHead(404).end();
      };
    });
    after(() => server?.stop());

    const add = async (name: string, inLargeStorage: boolean): Promise<void> => {
      [path, stored, etag, large] = [`${name}.bin`, listed, `"${gitId}"`, inLargeStorage];
      await cluster.json('a', 'dataset', 'add', name, 'hf://org/m', '--endpoint', server.url, '--allow-private');
      await readFirstChunk('a', name, path);
    };

    it('notices a change of a plain file by its ETag', async () => {
      await add('plain', false);
      [stored, etag] = [other, `"${createHash('sha1').update('other').digest('hex')}"`];
      await assertRefused('a', 'plain', path);
    });

    it('notices nothing of a large file by it: its digest does', async () => {
      await add('large', true);
      stored = other;
      await assertDiffers('large', path);
      stored = listed;
      await assertWhole('large');
    });
  });

  describe('S3', () => {
    let server: S3Server;
    let client: S3Client;

    before(async function () {
      server = await needsPrograms(this, () => S3Server.start());
      const { endpoint, keys } = server;
      client = new S3Client({ endpoint, credentials: keys, region: 'us-east-1', forcePathStyle: true });
      await cluster.add('s3', { environment: server.environment });
    });
    after(async () => {
      client?.destroy();
      await server?.stop();
    });

    const source = () => ['--endpoint', server.endpoint, '--allow-private'];
    const put = (bucket: string, body: Buffer) =>
      client.send(new PutObjectCommand({ Bucket: bucket, Key: 'm/one', Body: body }));
    const add = async (bucket: string): Promise<void> => {
      await put(bucket, listed);
      await cluster.json('s3', 'dataset', 'add', bucket, `s3://${bucket}/m`, ...source());
      await readFirstChunk('s3', bucket, 'one');
    };

    it('notices changes by the ETag where there are no versions', async () => {
      await client.send(new CreateBucketCommand({ Bucket: 'overwritten' }));
      await add('overwritten');
      await put('overwritten', other);
      await assertRefused('s3', 'overwritten', 'one');
    });

    it('notices changes by the ETag of the newest version, too: the one that was listed is not read by its name', async () => {
      await client.send(new CreateBucketCommand({ Bucket: 'versioned' }));
      const VersioningConfiguration = { Status: 'Enabled' } as const;
      await client.send(new PutBucketVersioningCommand({ Bucket: 'versioned', VersioningConfiguration }));
      await add('versioned');
      await put('versioned', other);
      await assertRefused('s3', 'versioned', 'one');
      // The next listing has the new state alone.
      await cluster.json('s3', 'dataset', 'add', 'versioned', 's3://versioned/m', ...source());
      const { code, stderr, bytes } = await cat('s3', 'versioned', 'one');
      assert.equal(code, 0, stderr);
      assert.ok(bytes.equals(other));
    });
  });
});
