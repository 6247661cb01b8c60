import assert from 'node:assert/strict';
import { Authority, TestClock, until } from '@hearth/common/testing';
import { sendFile, startServer } from '@hearth/common/testing/origins';
import { HttpOrigins } from './testing/http_origins.ts';
import { listAll } from './testing/list_all.ts';

describe('HttpOrigin at servers that redirect, refuse or fail', () => {
  let origins: HttpOrigins;
  let server: HttpOrigins['server'];
  let other: HttpOrigins['other'];
  let open: HttpOrigins['open'];
  let failure: HttpOrigins['failure'];

  beforeEach(async () => {
    origins = await HttpOrigins.start();
    ({ server, other, open, failure } = origins);
  });
  afterEach(() => origins[Symbol.asyncDispose]());

  it('follows redirects, notes them, and keeps the token from other hosts', async () => {
    server.handler = (request, response) => {
      if (request.url === '/x?k=secret') return void response.writeHead(302, { location: '/y' }).end();
      response.writeHead(307, { location: `${other.url}/z?signature=secret` }).end();
    };
    other.handler = (request, response) => sendFile(request, response, Buffer.from('12'), { etag: '"z"' });
    const origin = open(`${server.url}/x?k=secret`, { token: 'tok' });
    assert.equal((await listAll(origin))[0]?.validator, 'etag:"z"');
    assert.deepEqual(
      server.requests.map(({ authorization }) => authorization),
      ['Bearer tok', 'Bearer tok', 'Bearer tok', 'Bearer tok'],
    );
    assert.deepEqual(
      other.requests.map(({ authorization }) => authorization),
      [undefined, undefined],
    );
    assert.match(
      origin.revision().warnings.join(),
      /Redirected: files of 127\.0\.0\.1:\d+ are served by 127\.0\.0\.1:\d+/,
    );
  });

  it('refuses redirects in loops, without a target and into private ranges', async () => {
    server.handler = (_request, response) => response.writeHead(302, { location: '/again' }).end();
    assert.match(await failure(`${server.url}/x`), /^ProtocolError: .*more than 5 times/);
    server.handler = (_request, response) => response.writeHead(302).end();
    assert.match(await failure(`${server.url}/x`), /^ProtocolError: .*without saying where to/);
    server.handler = (_request, response) =>
      response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data?secret' }).end();
    const origin = open(`${server.url}/x`, { allowedAddresses: ['127.0.0.1'] }, false);
    await assert.rejects(listAll(origin), {
      code: 'PermissionDenied',
      message: /169\.254\.169\.254 has a link-local address/,
    });
    const port = new URL(server.url).port;
    await assert.rejects(listAll(open(`http://localhost:${port}/x`, {}, false)), {
      code: 'PermissionDenied',
      message: /localhost \(.*loopback/,
    });
  });

  it('maps statuses to errors with a next step', async () => {
    const expected: [number, RegExp][] = [
      [401, /^Unauthenticated: .*token/],
      [403, /^PermissionDenied: /],
      [404, /^NotFound: .*\/x does not exist/],
      [410, /^NotFound: /],
      [418, /^ProtocolError: /],
      [429, /^Unavailable: .*limits the agent's requests/],
      [503, /^Unavailable: .*503/],
    ];
    for (const [status, pattern] of expected) {
      server.handler = (_request, response) => response.writeHead(status).end();
      assert.match(await failure(`${server.url}/x?key=secret`), pattern);
    }
  });

  it('retries after 429, 5xx and broken connections, and honours Retry-After', async () => {
    let calls = 0;
    server.handler = (request, response) => {
      calls++;
      if (calls === 1) return void response.destroy();
      if (calls === 2) return void response.writeHead(429, { 'retry-after': '1' }).end();
      sendFile(request, response, Buffer.from('1'));
    };
    const clock = new TestClock();
    const listing = listAll(open(`${server.url}/x`, { clock }, true, true));
    for (const [made, pauseMs] of [
      [1, 0.75],
      [2, 1_000],
    ] as const) {
      await until('the pause', () => calls === made && clock.next === pauseMs);
      await clock.advance(pauseMs);
    }
    assert.equal((await listing).length, 1);
    assert.equal(calls, 3);
    calls = 0;
    server.handler = (_request, response) => {
      calls++;
      response.writeHead(503, { 'retry-after': '3600' }).end();
    };
    assert.match(await failure(`${server.url}/x`), /^Unavailable: /);
    assert.equal(calls, 1);
  });

  it('reports a host that is unreachable, speaks another protocol, or has no name', async () => {
    assert.match(
      await failure('http://127.0.0.1:1/x'),
      /^Unavailable: 127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\)/,
    );
    assert.match(
      await failure(`${server.url.replace('http:', 'https:')}/x`),
      /^ProtocolError: .*does not speak the protocol/,
    );
    assert.match(await failure('http://no-such-host.invalid/x'), /^Unavailable: /);
  });

  it('trusts only the given certificates', async () => {
    const authority = Authority.create();
    const secure = await startServer(authority.issue({ names: ['127.0.0.1'] }));
    try {
      secure.handler = (request, response) => sendFile(request, response, Buffer.from('12'), { etag: '"e"' });
      assert.match(
        await failure(`${secure.url}/x`),
        /^Unauthenticated: the certificate of .* is not trusted .*certificate authorities/,
      );
      const rows = await listAll(open(`${secure.url}/x`, { certificateAuthorities: authority.certificate }));
      assert.equal(rows[0]?.size, 2n);
      secure.handler = (_request, response) => response.writeHead(302, { location: `${server.url}/x` }).end();
      assert.match(
        await failure(`${secure.url}/x`, { certificateAuthorities: authority.certificate }),
        /^ProtocolError: .*less secure/,
      );
      assert.match(
        await failure(`${secure.url}/x`, { certificateAuthorities: '/none' }),
        /certificate authorities \/none cannot be read/,
      );
    } finally {
      await secure.stop();
      authority.remove();
    }
  });

  it('ends when it is cancelled while the server is silent', async () => {
    server.handler = () => undefined;
    await assert.rejects(listAll(open(`${server.url}/x`), AbortSignal.timeout(50)), { code: 'Cancelled' });
  });
});
