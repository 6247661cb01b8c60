import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { HearthError } from '@hearth/common';
import { Authority, settle, TemporaryFolder, TestClock } from '@hearth/common/testing';
import { LoopbackProxy, OddS3, type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';
import { ProxyChoice } from '@hearth/engine';
import { AddressPolicy } from './address_policy.ts';
import { openConnections } from './connections.ts';
import { createOrigin } from './create_origin.ts';
import { HttpClient } from './http_client.ts';
import { parseSource } from './source.ts';
import { listAll } from './testing/list_all.ts';

const body = Buffer.from('the bytes behind a proxy');

describe('origins behind a proxy', () => {
  let proxy: LoopbackProxy;
  let server: ScriptedServer;
  let environment: Record<string, string>;

  beforeEach(async () => {
    proxy = await LoopbackProxy.start();
    server = await startServer();
    server.handler = (request, response) => sendFile(request, response, body, { etag: '"v1"' });
    environment = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url };
  });
  afterEach(async () => {
    await server.stop();
    await proxy.stop();
  });

  /** The server's URL under a name that only the proxy resolves. */
  const named = (url = server.url) => url.replace('127.0.0.1', 'bucket.invalid');

  const list = async (url: string, more: Record<string, string> = {}, options = {}) => {
    const origin = createOrigin(parseSource(url), {
      environment: { ...environment, ...more },
      attempts: 1,
      ...options,
    });
    try {
      return await listAll(origin);
    } finally {
      origin.close();
    }
  };

  it('lists a web server whose name only the proxy knows', async () => {
    const rows = await list(`${named()}/model.bin`);
    assert.deepEqual(
      rows.map(({ path, size }) => [path, size]),
      [['model.bin', BigInt(body.length)]],
    );
    assert.ok(proxy.asked.length > 0);
    assert.ok(proxy.asked.every((line) => line.endsWith(` ${named()}/model.bin`)));
  });

  it('lists and reads an S3 bucket through the proxy', async () => {
    await using s3 = await OddS3.start({ 'a.bin': body }, {});
    const rows = await list(`s3://bench?endpoint=${named(s3.url)}`);
    assert.deepEqual(
      rows.map(({ path }) => path),
      ['a.bin'],
    );
    const asked = (what: string) => proxy.asked.filter((line) => line.includes(what));
    assert.ok(proxy.asked.every((line) => line.startsWith(`GET ${named(s3.url)}/bench`)));
    assert.deepEqual([asked('list-type=2').length, asked('/a.bin').length], [1, 1]);
  });

  it('requests tokens of a workload identity through the proxy', async () => {
    const folder = new TemporaryFolder('identity');
    const before = { ...process.env };
    writeFileSync(folder.file('token'), 'header.payload.signature');
    // The AWS chain reads the process's environment; here only the token service may be asked.
    Object.assign(process.env, {
      AWS_WEB_IDENTITY_TOKEN_FILE: folder.file('token'),
      AWS_ROLE_ARN: 'arn:aws:iam::123456789012:role/reader',
      AWS_REGION: 'us-east-1',
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_CONFIG_FILE: folder.file('none'),
      AWS_SHARED_CREDENTIALS_FILE: folder.file('none'),
    });
    proxy.refusal = 403;
    try {
      await assert.rejects(list('s3://bench?endpoint=https://bucket.invalid'));
      assert.ok(proxy.asked.includes('CONNECT sts.us-east-1.amazonaws.com:443'), proxy.asked.join());
    } finally {
      for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
      Object.assign(process.env, before);
      await folder.remove();
    }
  });

  it("sends the proxy's credentials only to the proxy", async () => {
    const seen: unknown[] = [];
    server.handler = (request, response) => {
      seen.push(request.headers.authorization);
      sendFile(request, response, body, { etag: '"v1"' });
    };
    await list(`${named()}/x`, { http_proxy: proxy.url.replace('://', '://user:word@') });
    assert.equal(proxy.authorizations[0], `Basic ${Buffer.from('user:word').toString('base64')}`);
    assert.deepEqual(new Set(seen), new Set([undefined]));
  });

  it('reaches hosts in NO_PROXY and this machine directly, under the address policy', async () => {
    await assert.rejects(list(`${named()}/x`, { NO_PROXY: '.invalid' }), { code: 'Unavailable' });
    await assert.rejects(list(`${server.url}/x`), { code: 'PermissionDenied' });
    assert.deepEqual(proxy.asked, []);
    assert.equal((await list(`${server.url}/x`, {}, { allowedAddresses: ['127.0.0.1'] })).length, 1);
    assert.deepEqual(proxy.asked, []);
  });

  it('refuses private addresses in URLs and redirects', async () => {
    await assert.rejects(list('http://10.0.0.1/x'), { code: 'PermissionDenied' });
    assert.equal(proxy.asked.length, 0);
    server.handler = (_request, response) => response.writeHead(302, { location: 'http://169.254.169.254/x' }).end();
    await assert.rejects(list(`${named()}/x`), { code: 'PermissionDenied' });
    assert.ok(!proxy.asked.some((line) => line.includes('169.254')));
  });

  it('reports a refusal by the proxy, without its password', async () => {
    const refused = async (status: number, code: string, url: string) => {
      proxy.refusal = status;
      const HTTPS_PROXY = proxy.url.replace('://', '://user:word@');
      await assert.rejects(list(url, { HTTPS_PROXY }), (thrown: HearthError) => {
        assert.equal(thrown.code, code);
        assert.match(thrown.message, /proxy/);
        assert.doesNotMatch(thrown.message, /word@/);
        return true;
      });
    };
    await refused(403, 'PermissionDenied', 'https://bucket.invalid/x');
    await refused(407, 'Unauthenticated', 'https://bucket.invalid/x');
    await refused(407, 'Unauthenticated', `${named()}/x`);
    await refused(503, 'Unavailable', 'https://bucket.invalid/x');
    await refused(403, 'PermissionDenied', 's3://bench?endpoint=https://bucket.invalid');
  });

  it('names an unreachable proxy, and an invalid variable', async () => {
    await assert.rejects(list(`${named()}/x`, { HTTP_PROXY: 'none.invalid:3128' }), {
      code: 'Unavailable',
      message: /the proxy http:\/\/none\.invalid:3128/,
    });
    await assert.rejects(list(`${named()}/x`, { HTTPS_PROXY: 'socks5://u:word@host:1080' }), (thrown: HearthError) => {
      assert.equal(thrown.code, 'InvalidArgument');
      assert.match(thrown.message, /HTTPS_PROXY/);
      assert.doesNotMatch(thrown.message, /word/);
      return true;
    });
  });

  it('tunnels https through the proxy, and verifies the server', async () => {
    const authority = Authority.create();
    const secure = await startServer(authority.issue({ names: ['bucket.invalid'] }));
    secure.handler = server.handler;
    try {
      const rows = await list(`${named(secure.url)}/x`, {}, { certificateAuthorities: authority.certificate });
      assert.equal(rows.length, 1);
      assert.ok(proxy.asked.every((line) => line === `CONNECT ${new URL(named(secure.url)).host}`));
      await assert.rejects(list(`${named(secure.url)}/x`), { code: 'Unauthenticated' });
    } finally {
      await secure.stop();
      authority.remove();
    }
  });

  describe('names that this machine resolves', () => {
    const request = async (resolve: (name: string) => Promise<{ address: string }[]>, clock = new TestClock()) => {
      const policy = new AddressPolicy(false, [], resolve);
      const connections = openConnections(policy, '', new ProxyChoice({ http: proxy.url, https: '', none: '' }));
      const client = new HttpClient(connections, policy, { attempts: 1, pauseMs: 1, attemptMs: 60_000, clock });
      try {
        const signal = AbortSignal.timeout(300_000);
        const url = new URL(`${named()}/x`);
        return await client.request({ method: 'GET', url, redirects: 'follow', bodyLimit: 100, signal });
      } finally {
        client.close();
      }
    };

    it('are refused when their address is private', async () => {
      await assert.rejects(
        request(async () => [{ address: '10.1.2.3' }]),
        { code: 'PermissionDenied', message: /bucket\.invalid \(10\.1\.2\.3\)/ },
      );
      assert.deepEqual(proxy.asked, []);
    });

    it('are left to the proxy when resolution takes too long', async () => {
      const clock = new TestClock();
      const answered = request(() => new Promise(() => undefined), clock);
      await settle();
      await clock.advance(2_000);
      assert.equal((await answered).status, 200);
    });
  });
});
