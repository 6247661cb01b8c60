import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import {
  gitId,
  type Handler,
  type ScriptedServer,
  sendFile,
  sendJson,
  startServer,
} from '@hearth/common/testing/origins';
import { ReadingProof } from '../datasets/reading_proof.ts';
import { createOrigin } from './create_origin.ts';
import type { ManifestRow, Origin } from './origin.ts';
import { parseSource } from './source.ts';
import { listAll } from './testing/list_all.ts';

const commit = '0123456789abcdef0123456789abcdef01234567';
const config = Buffer.from('{"a": true}');
const weights = Buffer.alloc(5000, 'w');
const sha256 = 'a'.repeat(64);
const page: Handler = (_request, response) => response.setHeader('content-type', 'text/html').end('<html>busy</html>');

describe('mirrors of hubs, and content networks', () => {
  let hub: ScriptedServer;
  let cdn: ScriptedServer;
  let plain: Handler;
  let oid: string;
  const opened: Origin[] = [];

  beforeEach(async () => {
    hub = await startServer();
    cdn = await startServer();
    plain = (request, response) => sendFile(request, response, config, { etag: undefined });
    oid = gitId(config);
    cdn.handler = (request, response) => sendFile(request, response, weights);
    hub.handler = (request, response) => {
      const { pathname } = new URL(request.url ?? '', hub.url);
      if (pathname.includes('/tree/')) {
        const lfs = { oid: sha256, size: weights.length };
        return sendJson(response, [
          { type: 'file', path: 'config.json', size: config.length, oid },
          { type: 'file', path: 'model.safetensors', size: 134, oid: gitId('pointer'), lfs },
        ]);
      }
      if (pathname.includes('/revision/')) return sendJson(response, { sha: commit });
      if (pathname.endsWith('/config.json')) return plain(request, response);
      response.writeHead(302, { location: `${cdn.url}/blob?key=secret-of-the-hub` }).end();
    };
  });
  afterEach(async () => {
    for (const origin of opened.splice(0)) origin.close();
    await hub.stop();
    await cdn.stop();
  });

  function open(): Origin {
    const source = { ...parseSource(`hf://org/tiny?endpoint=${hub.url}`), allowPrivate: true };
    const origin = createOrigin(source, { attempts: 2, pauseMs: 1, environment: {} });
    opened.push(origin);
    return origin;
  }

  async function readable(origin = open()): Promise<ManifestRow[]> {
    const rows = await listAll(origin);
    const proof = new ReadingProof(origin);
    proof.note(rows);
    await proof.read(AbortSignal.timeout(60_000));
    return rows;
  }

  it('prove plain files by their git ids, whatever their ETags are', async () => {
    const [row] = await readable();
    assert.equal(row?.validator, `git:${oid}`);
  });

  it('may compress plain files with a weak ETag and without a length', async () => {
    plain = (_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip', etag: `W/"${oid}"` });
      response.write(gzipSync(config));
      response.end();
    };
    const [row] = await readable();
    assert.equal(row?.validator, `git:${oid}`);
  });

  it('with wrong git ids fall back to ETags, in bounded memory', async () => {
    oid = gitId('something else');
    const refused = { code: 'InvalidArgument', message: /^WeakValidator: config\.json / };
    await assert.rejects(readable(), refused);
    plain = (_request, response) =>
      response.setHeader('content-encoding', 'gzip').end(gzipSync(Buffer.alloc(50 << 20)));
    await assert.rejects(readable(), refused);
  });

  it('receive a range with every request for a file', async () => {
    cdn.handler = (request, response) => {
      if (request.headers.range === undefined) response.writeHead(400).end('Range is required for large objects');
      else sendFile(request, response, weights);
    };
    await readable();
    const ofFiles = [...cdn.requests, ...hub.requests.filter(({ path }) => path.includes('/resolve/'))];
    assert.deepEqual(
      ofFiles.filter(({ range }) => range === undefined),
      [],
    );
  });

  it('that refuse every address are reported in their own words, after few requests', async () => {
    cdn.handler = (_request, response) => response.writeHead(403).end('SignatureError: key pair id is not known here');
    const error = await readable().catch((thrown: Error & { code: string }) => thrown);
    assert.ok(error instanceof Error);
    assert.equal(error.code, 'PermissionDenied');
    assert.match(error.message, /^the origin lists model\.safetensors, but refuses to serve it: http/);
    assert.ok(error.message.includes(`${cdn.url}/blob refuses access (403: "SignatureError: key pair id is not known`));
    assert.doesNotMatch(error.message, /secret-of-the-hub/);
    assert.ok(hub.requests.filter(({ path }) => path.endsWith('/model.safetensors')).length <= 5);
  });

  it('that answer with pages count as transient failures and are retried', async () => {
    cdn.handler = page;
    await assert.rejects(readable(), { code: 'Unavailable', message: /\/blob answered with a page \(text\/html\)/ });
    cdn.handler = (request, response) =>
      cdn.requests.length % 2 === 1 ? page(request, response) : sendFile(request, response, weights);
    assert.equal((await readable()).length, 2);
  });

  it('whose own redirects carry a query are resolved again in time', async () => {
    const answer = hub.handler;
    hub.handler = (request, response) => {
      if (request.url?.startsWith('/own-cdn')) return sendFile(request, response, weights);
      if (!request.url?.endsWith('/model.safetensors')) return answer(request, response);
      response.writeHead(302, { location: '/own-cdn?t=1' }).end();
    };
    const origin = open();
    await readable(origin);
    const entry = { index: 1, path: 'model.safetensors', contentKey: '', validator: '' };
    const [location] = await origin.locate([entry], AbortSignal.timeout(60_000));
    assert.ok((location?.expiresAt ?? 0) > Date.now());
    assert.equal(location?.url, `${hub.url}/own-cdn?t=1`);
  });

  it('end loops of redirects, and redirects to another scheme', async () => {
    for (const [location, message] of [
      ['/loop', /redirects more than 5 times/],
      ['ftp://elsewhere/x', /redirects to ftp:\/\//],
    ] as const) {
      cdn.handler = (_request, response) => response.writeHead(301, { location }).end();
      await assert.rejects(readable(), { code: 'ProtocolError', message });
    }
  });
});
