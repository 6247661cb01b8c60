import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { sendFile } from '@hearth/common/testing/origins';
import { digestKey, httpEtagKey, httpModifiedKey } from './content_key.ts';
import { createOrigin } from './create_origin.ts';
import { parseSource } from './source.ts';
import { HttpOrigins } from './testing/http_origins.ts';
import { listAll } from './testing/list_all.ts';

const date = 'Fri, 20 Nov 2026 10:00:00 GMT';
const signal = () => AbortSignal.timeout(300_000);

describe('HttpOrigin', () => {
  let origins: HttpOrigins;
  let server: HttpOrigins['server'];
  let open: HttpOrigins['open'];
  let failure: HttpOrigins['failure'];

  beforeEach(async () => {
    origins = await HttpOrigins.start();
    ({ server, open, failure } = origins);
  });
  afterEach(() => origins[Symbol.asyncDispose]());

  it('refuses files without a digest or strong ETag, unless allowed', async () => {
    server.handler = (request, response) => sendFile(request, response, Buffer.alloc(3), { etag: 'W/"abc"' });
    assert.match(
      await failure(`${server.url}/w`),
      /^InvalidArgument: WeakValidator: w has neither .*weakValidators: Allow/,
    );
  });

  it('lists files by strong ETag, else by date and size with a warning, where allowed', async () => {
    server.handler = (request, response) => {
      if (request.url?.startsWith('/m/strong'))
        return sendFile(request, response, Buffer.alloc(5_000_000), { etag: '"abc-1"' });
      if (request.url === '/m/weak') return sendFile(request, response, Buffer.alloc(3), { etag: 'W/"abc"' });
      sendFile(request, response, Buffer.alloc(0));
    };
    const strong = `${server.url}/m/strong%20%2B.bin`;
    const origin = open(`${strong} ${server.url}/m/weak ${server.url}/m/empty`, {}, true, true);
    const rows = await listAll(origin);
    const modifiedAtNs = BigInt(Date.parse(date)) * 1_000_000n;
    assert.deepEqual(rows, [
      {
        path: 'empty',
        kind: 'file',
        size: 0n,
        validator: `modified:${date}`,
        modifiedAtNs,
        contentKey: httpModifiedKey(`${server.url}/m/empty`, date, 0n),
      },
      {
        path: 'strong +.bin',
        kind: 'file',
        size: 5_000_000n,
        validator: 'etag:"abc-1"',
        modifiedAtNs,
        contentKey: httpEtagKey(strong, '"abc-1"'),
      },
      {
        path: 'weak',
        kind: 'file',
        size: 3n,
        validator: `modified:${date}`,
        modifiedAtNs,
        contentKey: httpModifiedKey(`${server.url}/m/weak`, date, 3n),
      },
    ]);
    assert.match(
      origin.revision().warnings.join(),
      /^WeakValidator: 1 files have neither a digest nor a strong validator/,
    );
    assert.deepEqual(origin.base(), { url: `${server.url}/m` });
    assert.deepEqual(
      await origin.locate([{ index: 3, path: 'strong +.bin', contentKey: '', validator: '' }], signal()),
      [{ entry: 3, url: strong }],
    );
  });

  it('locates files of its URLs only, and omits others on request', async () => {
    const origin = open(`${server.url}/m/a.bin`);
    const asked = ['a.bin', 'b.bin'].map((path, index) => ({ index, path, contentKey: '', validator: '' }));
    await assert.rejects(origin.locate(asked, signal()), { code: 'NotFound', message: /no URL for b\.bin/ });
    assert.deepEqual(await origin.locate(asked, signal(), true), [{ entry: 0, url: `${server.url}/m/a.bin` }]);
  });

  it('uses a SHA-256 of the source, and requires one when the server has no validator', async () => {
    const body = Buffer.from('model');
    server.handler = (request, response) => sendFile(request, response, body, { 'last-modified': undefined });
    assert.match(
      await failure(`${server.url}/x`),
      /^InvalidArgument: .*neither a strong ETag nor Last-Modified.*#sha256=/,
    );
    const sha256 = createHash('sha256').update(body).digest('hex');
    const origin = open(`${server.url}/x#sha256=${sha256.toUpperCase()}`);
    const [row] = await listAll(origin);
    assert.deepEqual(row, {
      path: 'x',
      kind: 'file',
      size: 5n,
      validator: '',
      sourceDigest: sha256,
      contentKey: digestKey(`${server.url}/x`, sha256, 5n),
    });
    assert.match(
      origin.revision().warnings.join(),
      /^DigestOnly: 1 files have only a digest, as their servers .*the first is x\); .*bytes of both states$/,
    );
    server.handler = (request, response) => sendFile(request, response, body, { etag: '"e"' });
    const tagged = open(`${server.url}/x#sha256=${sha256}`);
    await listAll(tagged);
    assert.deepEqual(tagged.revision().warnings, []);
  });

  it('reads the first byte of each file, so that listed files are readable', async () => {
    server.handler = (request, response) => {
      if (request.method === 'HEAD') return void response.writeHead(405).end();
      sendFile(request, response, Buffer.alloc(9_000_000), { etag: '"e"' });
    };
    const [row] = await listAll(open(`${server.url}/x?signature=secret`));
    assert.equal(row?.size, 9_000_000n);
    assert.deepEqual(
      server.requests.map(({ method, range }) => [method, range]),
      [
        ['GET', 'bytes=0-0'],
        ['GET', 'bytes=0-0'],
      ],
      'the second with If-Match',
    );
    assert.equal(open(`${server.url}/x?signature=secret`).base(), undefined);
    assert.doesNotMatch(open(`${server.url}/x?signature=secret`).describe(), /secret/);
  });

  it('refuses a gated file beside public ones, although its list is public', async () => {
    server.handler = (request, response) => {
      if (request.url === '/gated' && request.method === 'GET') return void response.writeHead(403).end();
      sendFile(request, response, Buffer.alloc(10), { etag: '"e"' });
    };
    const { url } = server;
    const source = {
      ...parseSource(`${url}/public`),
      kind: { $case: 'http' as const, value: { urls: [`${url}/public`, `${url}/gated`], sha256: {} } },
    };
    const origin = createOrigin({ ...source, allowPrivate: true }, { attempts: 1 });
    await assert.rejects(listAll(origin), { code: 'PermissionDenied' });
    origin.close();
  });

  it('refuses a server that ignores ranges, except for files of one chunk', async () => {
    server.handler = (request, response) => {
      const large = request.url === '/large';
      sendFile(request, response, Buffer.alloc(large ? 4 * 2 ** 20 + 1 : 4 * 2 ** 20), {
        'accept-ranges': undefined,
        etag: '"e"',
      });
    };
    assert.equal((await listAll(open(`${server.url}/small`)))[0]?.size, 4n * 2n ** 20n);
    assert.match(await failure(`${server.url}/large`), /^Unsupported: .*ignores ranges.*up to 4 MiB.*nginx/);
  });

  it('walks index pages of nginx, Apache and Python below their prefix only', async () => {
    const pages: Record<string, string> = {
      '/data/': `<html><body><h1>Index of /data/</h1><hr><pre><a href="../">../</a>
<a href="a%20b%26c/">a b&amp;c/</a>  21-Nov-2026 10:00  -
<a href="weights.bin">weights.bin</a>   21-Nov-2026 10:00   5
</pre></body></html>`,
      '/data/a%20b%26c/': `<table><tr><th><a href="?C=N;O=D">Name</a></th></tr>
<tr><td><a href="/data/">Parent Directory</a></td></tr><tr><td><A class="x" HREF='x&#46;txt'>x</A></td></tr>
<tr><td><a href="${'/elsewhere/file'}">no</a> <a href="https://example.com/y">no</a> <a href="mailto:a@b">no</a></td></tr>
<tr><td><a href=empty/>empty/</a><a href="deep/below.txt">no</a></td></tr></table>`,
      '/data/a%20b%26c/empty/': '<ul></ul>',
    };
    server.handler = (request, response) => {
      const page = pages[request.url ?? ''];
      if (page !== undefined)
        return void response.writeHead(200, { 'content-type': 'text/html;charset=utf-8' }).end(page);
      sendFile(request, response, Buffer.from('12345'), { etag: `"${request.url}"` });
    };
    const origin = open(`${server.url}/data/`, { token: 'tok' });
    const rows = await listAll(origin);
    assert.deepEqual(
      rows.map(({ path, kind, size }) => [path, kind, size]),
      [
        ['a b&c/empty', 'directory', 0n],
        ['a b&c/x.txt', 'file', 5n],
        ['weights.bin', 'file', 5n],
      ],
    );
    assert.equal(rows[1]?.contentKey, httpEtagKey(`${server.url}/data/a%20b%26c/x.txt`, '"/data/a%20b%26c/x.txt"'));
    assert.deepEqual(origin.base(), { url: `${server.url}/data`, headers: { authorization: 'Bearer tok' } });
    assert.ok(server.requests.every(({ authorization }) => authorization === 'Bearer tok'));
    const [location] = await origin.locate(
      [{ index: 0, path: 'a b&c/x.txt', contentKey: '', validator: '' }],
      signal(),
    );
    assert.equal(location?.url, `${server.url}/data/a%20b%26c/x.txt`);
  });

  it('lists each of several URLs under its own name', async () => {
    server.handler = (request, response) => {
      if (request.url === '/one/')
        return void response.writeHead(200, { 'content-type': 'text/html' }).end('<a href="x">x</a>');
      sendFile(request, response, Buffer.from('1'), { etag: '"e"' });
    };
    const origin = open(`${server.url}/one/ ${server.url}/two`);
    assert.deepEqual(
      (await listAll(origin)).map(({ path }) => path),
      ['one/x', 'two'],
    );
    assert.deepEqual(origin.base(), { url: server.url });
    assert.throws(() => open(`${server.url}/a/x ${server.url}/b/x`), {
      code: 'InvalidArgument',
      message: /would both be "x"/,
    });
  });

  it('names the fault of an index page', async () => {
    server.handler = (request, response) => {
      if (request.url === '/json/')
        return void response.writeHead(200, { 'content-type': 'application/json' }).end('[]');
      if (request.url === '/moved/') return void response.writeHead(302, { location: '/there/' }).end();
      response.writeHead(200, { 'content-type': 'text/html' }).end('<a href="loop/">loop/</a>');
    };
    assert.match(await failure(`${server.url}/json/`), /^Unsupported: .*not an index page/);
    assert.match(await failure(`${server.url}/moved/`), /^Unsupported: .*redirects to .*\/there\/; give that URL/);
    assert.match(await failure(`${server.url}/loop/`), /^Unsupported: .*more than 64 folders deep/);
  });

  it('refuses names of index pages that are not UTF-8', async () => {
    server.handler = (request, response) => {
      if (request.url === '/')
        return void response
          .writeHead(200, { 'content-type': 'text/html' })
          .end('<a href="bad%ff">x</a><a href="a%2Fb">x</a>');
      sendFile(request, response, Buffer.from('1'));
    };
    assert.match(await failure(`${server.url}/`), /^InvalidArgument: 2 names .*bad%ff: not UTF-8/);
  });

  it('compares ETags of servers that omit the quotes or refuse them in If-Match', async () => {
    const etags: [string, (condition: string | undefined) => boolean][] = [
      ['v1', () => true],
      ['"v1"', (condition) => condition === undefined],
    ];
    for (const [etag, takes] of etags) {
      server.handler = (request, response) => {
        if (takes(request.headers['if-match'])) sendFile(request, response, Buffer.from('12'), { etag });
        else response.writeHead(412).end();
      };
      server.requests.length = 0;
      const origin = open(`${server.url}/x ${server.url}/y`);
      const rows = await listAll(origin);
      assert.deepEqual(
        rows.map(({ validator }) => validator),
        ['compared-etag:"v1"', 'compared-etag:"v1"'],
      );
      assert.ok(server.requests.length <= 3, 'one server is asked once');
      for (const { path, contentKey = '', validator = '', size } of rows)
        await origin.readByte({ index: 0, path, contentKey, validator, size }, AbortSignal.timeout(60_000));
    }
  });
});
