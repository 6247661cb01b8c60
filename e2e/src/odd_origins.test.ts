import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bytesOf, MiB, type Outcome, sha256 } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import {
  gitId,
  type Handler,
  LoopbackProxy,
  OddS3,
  type S3Oddities,
  type ScriptedServer,
  sendFile,
  sendJson,
  startServer,
} from '@hearth/common/testing/origins';

/** Text, so that standard output has it as it is. */
const textOf = (seed: number, size: number): string => bytesOf(seed, size / 2).toString('hex');
const large = textOf(1, 5 * MiB);
const small = textOf(2, 40_000);

// Origins as users of comparable systems met them: each is read, or refused by name when it is added.
describe('origins that differ', () => {
  let cluster: Cluster;
  let names = 0;

  before(async () => {
    cluster = await Cluster.start(['a']);
  });
  after(async () => cluster?.close());

  const nextName = () => `d${names++}`;
  const tryToAdd = (name: string, ...source: string[]): Promise<Outcome> =>
    cluster.hearth('a', 'dataset', 'add', name, ...source, '--allow-private');

  /** Adds it, has it warmed, and reads every file. */
  const assertRead = async (files: Record<string, string>, ...source: string[]): Promise<string> => {
    const name = nextName();
    const added = await tryToAdd(name, ...source);
    assert.equal(added.code, 0, added.stderr);
    await assertReadable(name, files);
    return name;
  };
  const assertReadable = async (name: string, files: Record<string, string>): Promise<void> => {
    const warmed = await cluster.hearth('a', 'warm', name, '--node', 'a');
    assert.equal(warmed.code, 0, warmed.stdout + warmed.stderr);
    for (const [path, text] of Object.entries(files)) {
      const { code, stdout, stderr } = await cluster.hearth('a', 'cat', name, path);
      assert.equal(code, 0, stderr);
      assert.ok(stdout === text, `${path} has the bytes of the origin`);
    }
  };
  /** It is refused when it is added, and is not there as if it could be read. */
  const assertRefused = async (words: RegExp, ...source: string[]): Promise<void> => {
    const name = nextName();
    const { code, stderr } = await tryToAdd(name, ...source);
    assert.notEqual(code, 0);
    assert.match(stderr, words);
    const { state } = await cluster.json<{ state: string }>('a', 'dataset', 'show', name);
    assert.equal(state, 'Failed');
  };

  describe('S3', () => {
    const objects = { 'a.bin': large, 'c.txt': 'hello, world\n' };
    const other = (md5: string) => createHash('md5').update(`other ${md5}`).digest('hex');
    const withBucket = async (oddities: S3Oddities, work: (source: string) => Promise<unknown>): Promise<void> => {
      const buffers = Object.fromEntries(Object.entries(objects).map(([key, text]) => [key, Buffer.from(text)]));
      await using server = await OddS3.start(buffers, oddities);
      await work(server.source);
    };

    it('lists ETags without quotes and serves them with quotes', () =>
      withBucket({ listedEtag: (md5) => md5 }, (source) => assertRead(objects, source)));

    it('answers 412 to If-Match with quotes', () =>
      withBucket({ listedEtag: (md5) => md5, matches: (condition) => !condition.startsWith('"') }, (source) =>
        assertRead(objects, source),
      ));

    it('serves no ETag: its date is taken where that is allowed', () =>
      withBucket({ servedEtag: () => undefined }, async (source) => {
        await assertRefused(/WeakValidator: /, source);
        await assertRead(objects, source, '--allow-weak-validators');
      }));

    it('serves another ETag than it lists', () =>
      withBucket({ servedEtag: (md5) => `"${other(md5)}"` }, (source) => assertRead(objects, source)));
  });

  describe('hubs', () => {
    const files = { 'config.json': small, 'model.safetensors': large };
    const commit = gitId('commit');
    let hub: ScriptedServer;
    let cdn: ScriptedServer;
    let plain: Handler;
    /** Of the addresses that the hub gives. */
    let tickets: number;

    beforeEach(async () => {
      [hub, cdn] = [await startServer(), await startServer()];
      tickets = 0;
      plain = (request, response) => sendFile(request, response, Buffer.from(small), { etag: `"${gitId(small)}"` });
      cdn.handler = (request, response) => sendFile(request, response, Buffer.from(large));
      hub.handler = (request, response) => {
        const { pathname } = new URL(request.url ?? '', hub.url);
        if (pathname.includes('/tree/')) {
          const lfs = { oid: sha256(Buffer.from(large)), size: large.length };
          return sendJson(response, [
            { type: 'file', path: 'config.json', size: small.length, oid: gitId(small) },
            { type: 'file', path: 'model.safetensors', size: 134, oid: gitId('pointer'), lfs },
          ]);
        }
        if (pathname.includes('/revision/')) return sendJson(response, { sha: commit });
        if (pathname.endsWith('/config.json')) return plain(request, response);
        response.writeHead(302, { location: `${cdn.url}/blob?t=${tickets++}` }).end();
      };
    });
    afterEach(async () => {
      await hub.stop();
      await cdn.stop();
    });
    const source = () => ['hf://org/tiny', '--endpoint', hub.url] as const;

    it('compress plain files, with a weak ETag and without a length', async () => {
      plain = (_request, response) => {
        response.writeHead(200, { 'content-encoding': 'gzip', etag: `W/"${gitId(small)}"` });
        response.write(gzipSync(small));
        response.end();
      };
      await assertRead(files, ...source());
    });

    it('give plain files that are not those of their git id: no byte of them is served', async () => {
      const name = nextName();
      assert.equal((await tryToAdd(name, ...source())).code, 0);
      plain = (request, response) => sendFile(request, response, Buffer.from(small.toUpperCase()), { etag: undefined });
      const { code, stdout, stderr } = await cluster.hearth('a', 'cat', name, 'config.json');
      assert.notEqual(code, 0);
      assert.equal(stdout, '');
      assert.match(stderr, /git id/);
    });

    it('refuse every address with words of their own, which are shown after few requests', async () => {
      cdn.handler = (_request, response) => response.writeHead(403).end('SignatureError: key pair id is not known');
      await assertRefused(new RegExp(`${cdn.url}.*SignatureError: key pair id is not known`), ...source());
      assert.ok(tickets <= 5);
    });

    it('give addresses that expire: another one is asked for', async () => {
      const name = nextName();
      assert.equal((await tryToAdd(name, ...source())).code, 0);
      const expired = tickets;
      cdn.handler = (request, response) => {
        const ticket = Number(new URL(request.url ?? '', cdn.url).searchParams.get('t'));
        if (ticket <= expired) response.writeHead(403).end('Request has expired');
        else sendFile(request, response, Buffer.from(large));
      };
      await assertReadable(name, files);
      assert.ok(tickets > expired + 1);
    });

    it('want a range with every request', async () => {
      cdn.handler = (request, response) => {
        if (request.headers.range === undefined) response.writeHead(400).end('Range is required for large objects');
        else sendFile(request, response, Buffer.from(large));
      };
      await assertRead(files, ...source());
    });

    it('answer with a page while they are busy: it is no state of the file', async () => {
      const whole = cdn.handler;
      const page: Handler = (_request, response) =>
        response.writeHead(200, { 'content-type': 'text/html' }).end(`<html><body>Service is busy</body></html>`);
      cdn.handler = page;
      const name = nextName();
      const refused = await tryToAdd(name, ...source());
      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, /answered with a page \(text\/html\)/);
      assert.doesNotMatch(refused.stderr, /changed/);
      cdn.handler = whole;
      assert.equal((await tryToAdd(name, ...source())).code, 0);
      let pages = 2;
      cdn.handler = (request, response) => (pages-- > 0 ? page : whole)(request, response);
      await assertReadable(name, files);
      assert.ok(pages < 0);
    });
  });

  describe('directories of links', () => {
    let root: string;
    let snapshot: string;
    let linked: string;
    before(() => {
      linked = join(cluster.folder, 'linked');
      mkdirSync(join(linked, 'models'), { recursive: true });
      mkdirSync(join(linked, 'disk'));
      writeFileSync(join(linked, 'disk', 'model.bin'), large);
      symlinkSync(join(linked, 'disk'), join(linked, 'models', 'llama'));
      root = join(cluster.folder, 'hub', 'models--o--m');
      snapshot = join(root, 'snapshots', 'abc');
      mkdirSync(snapshot, { recursive: true });
      mkdirSync(join(root, 'blobs'));
      writeFileSync(join(root, 'blobs', '1'), large);
      symlinkSync('../../blobs/1', join(snapshot, 'model.safetensors'));
      symlinkSync(join(root, 'blobs', '1'), join(snapshot, 'absolute'));
    });

    it('are read as the files behind them', () =>
      assertRead({ 'model.safetensors': large, absolute: large }, snapshot));

    it('name the first link, and the folder to add, where that is not allowed', async () => {
      await cluster.add('strict', { flags: ['--origins-directory-prefixes', `${snapshot},${linked}`] });
      try {
        const { code, stderr } = await cluster.hearth('strict', 'dataset', 'add', nextName(), snapshot);
        assert.notEqual(code, 0);
        assert.match(stderr, /(model\.safetensors|absolute) leads to /);
        assert.ok(stderr.includes(`or add ${join(root, 'blobs')} to origins.directoryPrefixes`), stderr);
        const name = nextName();
        await cluster.json('strict', 'dataset', 'add', name, join(linked, 'models'));
        const read = await cluster.hearth('strict', 'cat', name, 'llama/model.bin');
        assert.equal(read.code, 0, read.stderr);
        assert.ok(read.stdout === large, 'a folder behind a link is read, below what is allowed');
      } finally {
        await cluster.agent('strict').stop();
      }
    });
  });

  it('are asked through the proxy of the agent, which alone knows their names', async () => {
    const server = await startServer();
    const proxy = await LoopbackProxy.start();
    try {
      server.handler = (request, response) => sendFile(request, response, Buffer.from(large), { etag: '"1"' });
      await cluster.add('proxied', { environment: { HTTP_PROXY: proxy.url, NO_PROXY: '.example.com' } });
      const url = `${server.url.replace('127.0.0.1', 'bucket.invalid')}/model.bin`;
      const name = nextName();
      await cluster.json('proxied', 'dataset', 'add', name, url);
      const listed = proxy.asked.length;
      const { code, stdout, stderr } = await cluster.hearth('proxied', 'cat', name, 'model.bin');
      assert.equal(code, 0, stderr);
      assert.ok(stdout === large);
      assert.ok(listed > 0 && proxy.asked.length > listed, 'the listing and the bytes came through the proxy');
    } finally {
      await cluster.agents.get('proxied')?.stop();
      await proxy.stop();
      await server.stop();
    }
  });
});
