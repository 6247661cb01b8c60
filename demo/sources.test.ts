import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Authority, type KeyPair, needsPrograms } from '@hearth/common/testing';
import { type Handler, S3Server, type ScriptedServer, sendFile, startServer } from '@hearth/common/testing/origins';
import { assertReadOnce, DemoRuns, needMounts } from './testing/demo_run.ts';

const weights = randomBytes(9 * 1024 ** 2 + 17);
const config = randomBytes(300);

describe('make run with SOURCE', () => {
  let runs: DemoRuns;
  const closing: (() => void | Promise<void>)[] = [];

  beforeEach(function () {
    needMounts(this);
    runs = new DemoRuns();
    closing.push(() => runs.close());
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  async function serve(tls?: KeyPair): Promise<ScriptedServer> {
    const server = await startServer(tls);
    closing.push(() => server.stop());
    return server;
  }

  /** The whole tour: every byte on three agents is the origin's, each read from it once and then to compare. */
  async function verify(environment: Record<string, string>, name: string, files: number): Promise<void> {
    const run = runs.start({ ONESHOT: '1', ...environment });
    assert.equal(await run.ended, 0, run.output());
    const said = run.output();
    assert.match(said, new RegExp(`Added ${name}: ${files} files?, 9\\.\\d MiB`));
    assertReadOnce(said);
    assert.match(said, /^a +\S*weights\.safetensors .*view +already here .*identical$/m);
    assert.match(said, /^c +\S*weights\.safetensors .*daemon .*peers .*identical$/m);
    assert.match(said, new RegExp(`Verified: ${3 * files} files .*every byte is the origin's`));
    for (const secret of ['secret', 'Signature', environment.AWS_SECRET_ACCESS_KEY, environment.HF_TOKEN]) {
      if (secret !== undefined) assert.ok(!said.includes(secret), `it prints a secret:\n${said}`);
    }
  }

  async function verifyWarm(environment: Record<string, string>): Promise<void> {
    const run = runs.start({ ONESHOT: '1', ...environment });
    assert.equal(await run.ended, 0, run.output());
    assert.match(run.output(), /Warm start/);
  }

  it('s3://bucket/prefix: the endpoint from the environment or the source, credentials from the AWS variables', async function () {
    const server = await needsPrograms(this, () => S3Server.start());
    closing.push(() => server.stop());
    const { endpoint, keys } = server;
    const client = new S3Client({ endpoint, credentials: keys, region: 'us-east-1', forcePathStyle: true });
    closing.push(() => client.destroy());
    await client.send(new CreateBucketCommand({ Bucket: 'models' }));
    for (const [Key, Body] of [
      ['llama/weights.safetensors', weights],
      ['llama/tokenizer/config.json', config],
      ['other', config],
    ] as const) {
      await client.send(new PutObjectCommand({ Bucket: 'models', Key, Body }));
    }
    const identity = {
      AWS_ACCESS_KEY_ID: keys.accessKeyId,
      AWS_SECRET_ACCESS_KEY: keys.secretAccessKey,
    };
    const region = { AWS_REGION: 'us-east-1' };
    await verify({ SOURCE: 's3://models/llama', AWS_ENDPOINT_URL: endpoint, ...region, ...identity }, 'llama', 2);
    await verifyWarm({ SOURCE: `s3://models/llama?endpoint=${endpoint}&region=us-east-1`, ...identity });
    const refused = runs.start({
      ONESHOT: '1',
      SOURCE: `s3://models/llama?endpoint=${endpoint}`,
      ...region,
      ...identity,
      AWS_SECRET_ACCESS_KEY: 'wrong',
    });
    assert.equal(await refused.ended, 5, refused.output());
  });

  it('hf://org/model@revision: the hub of HF_ENDPOINT, its token only sent to it', async () => {
    const commit = createHash('sha1').update('commit').digest('hex');
    const oid = createHash('sha256').update(weights).digest('hex');
    const blobs = await serve();
    blobs.handler = (request, response) => sendFile(request, response, weights, { etag: '"1"' });
    const hub = await serve();
    hub.handler = (request, response) => {
      const json = (value: unknown) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      switch (request.url) {
        case '/api/models/org/mini/revision/v1':
        case `/api/models/org/mini/revision/${commit}`:
          return json({ sha: commit, siblings: [] });
        case `/api/models/org/mini/tree/${commit}?recursive=true`:
          return json([
            { type: 'file', oid: commit, size: config.length, path: 'config.json' },
            {
              type: 'file',
              oid: commit,
              size: weights.length,
              path: 'weights.safetensors',
              lfs: { oid, size: weights.length },
            },
          ]);
        case `/org/mini/resolve/${commit}/config.json`:
          return sendFile(request, response, config, { etag: `"${commit}"` });
        case `/org/mini/resolve/${commit}/weights.safetensors`:
          return response.writeHead(302, { location: `${blobs.url}/blob?X-Amz-Signature=secret` }).end();
        default:
          return response.writeHead(404, { 'x-error-code': 'RevisionNotFound' }).end();
      }
    };
    await verify({ SOURCE: 'hf://org/mini@v1', HF_ENDPOINT: hub.url, HF_TOKEN: 'hf_abcdef' }, 'mini', 2);
    assert.ok(hub.requests.every(({ authorization }) => authorization === 'Bearer hf_abcdef'));
    assert.ok(blobs.requests.length > 0);
    assert.ok(blobs.requests.every(({ authorization }) => authorization === undefined));

    // The name is that of a dataset of the run before, whose bytes stay.
    await verifyWarm({ SOURCE: `hf://org/mini@${commit}`, HF_ENDPOINT: hub.url });
    const missing = runs.start({ ONESHOT: '1', SOURCE: 'hf://org/mini@v2', HF_ENDPOINT: hub.url });
    assert.equal(await missing.ended, 3, missing.output());
    assert.match(missing.output(), /org\/mini has no revision "v2"/);
  });

  it('https://: several URLs, with a certificate of an authority in SSL_CERT_FILE', async () => {
    const authority = Authority.create();
    closing.push(() => authority.remove());
    const server = await serve(authority.issue({ names: ['127.0.0.1'] }));
    const file: Handler = (request, response) => {
      const { pathname } = new URL(request.url ?? '', server.url);
      const body = { '/m/weights.safetensors': weights, '/m/config.json': config }[pathname];
      if (body === undefined) return response.writeHead(404).end();
      return sendFile(request, response, body, { etag: `"${body.length}"` });
    };
    server.handler = file;
    const SOURCE = `${server.url}/m/weights.safetensors ${server.url}/m/config.json`;
    await verify({ SOURCE, SSL_CERT_FILE: authority.certificate }, 'weights.safetensors', 2);

    const refused = runs.start({ ONESHOT: '1', SOURCE: `${server.url}/m/config.json` });
    assert.equal(await refused.ended, 5, refused.output());
    assert.match(refused.output(), /certificate/);
  });
});
