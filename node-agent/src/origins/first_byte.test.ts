import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';
import { createOrigin } from './create_origin.ts';
import type { LocatableEntry, Origin, OriginOptions } from './origin.ts';
import { parseSource } from './source.ts';

const signal = () => AbortSignal.timeout(300_000);
const commit = '0123456789abcdef0123456789abcdef01234567';
const entry = (path: string): LocatableEntry => ({ index: 0, path, contentKey: '', validator: '' });

describe('the first byte of a file', () => {
  let server: ScriptedServer;
  let elsewhere: ScriptedServer;
  const opened: Origin[] = [];
  beforeEach(async () => {
    server = await startServer();
    elsewhere = await startServer();
  });
  afterEach(async () => {
    for (const origin of opened.splice(0)) origin.close();
    await server.stop();
    await elsewhere.stop();
  });

  function open(text: string, options: OriginOptions = {}): Origin {
    const source = { ...parseSource(text), allowPrivate: true };
    const origin = createOrigin(source, { attempts: 1, environment: {}, ...options });
    opened.push(origin);
    return origin;
  }

  it('is read with the token, which a redirect to another host does not get', async () => {
    elsewhere.handler = (request, response) => sendFile(request, response, Buffer.from('bytes'));
    server.handler = (request, response) =>
      request.headers.authorization === 'Bearer t'
        ? response.writeHead(302, { location: `${elsewhere.url}/blob?signature=x` }).end()
        : response.writeHead(401).end();
    await open(`${server.url}/m/a.bin`, { token: 't' }).readByte(entry('a.bin'), signal());
    assert.deepEqual(elsewhere.requests, [
      { method: 'GET', path: '/blob?signature=x', authorization: undefined, range: 'bytes=0-0' },
    ]);
    await assert.rejects(open(`${server.url}/m/a.bin`).readByte(entry('a.bin'), signal()), { code: 'Unauthenticated' });
  });

  it('suffices for servers that ignore ranges', async () => {
    server.handler = (_request, response) => response.writeHead(200).end(Buffer.alloc(100_000));
    await open(`${server.url}/a.bin`).readByte(entry('a.bin'), signal());
  });

  it('of a gated model is refused although its list is public', async () => {
    server.handler = (request, response) => {
      const allowed = request.headers.authorization === 'Bearer member';
      if (request.url === `/org/m/resolve/${commit}/x` && allowed) sendFile(request, response, Buffer.from('x'));
      else if (request.headers.authorization === undefined) {
        response.writeHead(401, { 'x-error-code': 'GatedRepo' }).end();
      } else response.writeHead(403, { 'x-error-code': 'GatedRepo' }).end();
    };
    const hub = (token?: string) =>
      open(`hf://org/m?endpoint=${server.url}`, { revision: commit, ...(token === undefined ? {} : { token }) });
    await hub('member').readByte(entry('x'), signal());
    await assert.rejects(hub('stranger').readByte(entry('x'), signal()), {
      code: 'PermissionDenied',
      message: /gated/,
    });
    await assert.rejects(hub().readByte(entry('x'), signal()), { code: 'Unauthenticated', message: /gated/ });
  });

  it('of a private address is never read', async () => {
    const refused = { code: 'PermissionDenied', message: /loopback address/ };
    const strict = (text: string) => {
      const origin = createOrigin(parseSource(text), { attempts: 1, environment: {} });
      opened.push(origin);
      return origin.readByte(entry('a'), signal());
    };
    await assert.rejects(strict(`${server.url}/a`), refused);
    await assert.rejects(strict(`${server.url.replace('127.0.0.1', 'localhost')}/a`), refused);
    assert.deepEqual(server.requests, []);
  });

  it('of a local file is not read through a link in its place', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'hearth-byte-'));
    await writeFile(join(folder, 'a'), 'a');
    const origin = open(folder, { allowedDirectories: [folder] });
    await origin.readByte(entry('a'), signal());
    await unlink(join(folder, 'a'));
    await symlink('/etc/passwd', join(folder, 'a'));
    await assert.rejects(origin.readByte(entry('a'), signal()), { code: 'OriginChanged', message: /ELOOP/ });
    await writeFile(join(folder, 'b'), '');
    await assert.rejects(origin.readByte(entry('b'), signal()), { code: 'OriginChanged', message: /became empty/ });
    await mkdir(join(folder, 'sub'));
    await writeFile(join(folder, 'sub/passwd'), 'listed');
    await origin.readByte(entry('sub/passwd'), signal());
    await rm(join(folder, 'sub'), { recursive: true });
    await symlink('/etc', join(folder, 'sub'));
    const elsewhere = { code: 'OriginChanged', message: /is not where it was listed/ };
    await assert.rejects(origin.readByte(entry('sub/passwd'), signal()), elsewhere);
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    await assert.rejects(origin.readByte(entry('pipe'), signal()), { code: 'OriginChanged', message: /no file/ });
    await rm(folder, { recursive: true });
  });

  it("of S3 is requested from the source's endpoint, whatever the agent's environment says", async () => {
    const before = { ...process.env };
    Object.assign(process.env, {
      AWS_ENDPOINT_URL_S3: server.url,
      AWS_REGION: 'eu-test-9',
      AWS_ACCESS_KEY_ID: 'of-the-node',
      AWS_SECRET_ACCESS_KEY: 'of-the-node',
    });
    try {
      const credentials = { accessKeyId: 'of-the-dataset', secretAccessKey: 's' };
      const [location] = await open('s3://models/llama', { credentials }).locate([entry('x')], signal());
      assert.match(location?.url ?? '', /^https:\/\/models\.s3\.(us-east-1\.)?amazonaws\.com\/llama\/x\?/);
      assert.match(location?.url ?? '', /of-the-dataset/);
      assert.doesNotMatch(location?.url ?? '', /of-the-node|eu-test-9/);
    } finally {
      process.env = before;
    }
  });
});
