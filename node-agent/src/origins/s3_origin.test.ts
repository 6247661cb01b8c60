import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CreateBucketCommand, PutBucketPolicyCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { needsPrograms } from '@hearth/common/testing';
import { S3Server } from '@hearth/common/testing/origins';
import { ReadingProof } from '../datasets/reading_proof.ts';
import { s3EtagKey } from './content_key.ts';
import { createOrigin } from './create_origin.ts';
import type { ManifestRow, Origin, OriginOptions } from './origin.ts';
import { parseSource } from './source.ts';
import { listAll } from './testing/list_all.ts';

const signal = () => AbortSignal.timeout(300_000);

function openS3(text: string, options: OriginOptions, allowPrivate = true): Origin {
  return createOrigin({ ...parseSource(text), allowPrivate }, { attempts: 1, pauseMs: 1, environment: {}, ...options });
}

function locatable(rows: ManifestRow[]) {
  return rows.map(({ path, contentKey = '', validator = '' }, index) => ({ index, path, contentKey, validator }));
}

describe('S3Origin against a real S3 server', () => {
  let server: S3Server;
  let client: S3Client;
  const opened: Origin[] = [];

  before(async function () {
    server = await needsPrograms(this, () => S3Server.start());
    const { endpoint, keys } = server;
    client = new S3Client({ endpoint, credentials: keys, region: 'us-east-1', forcePathStyle: true });
    await client.send(new CreateBucketCommand({ Bucket: 'models' }));
  });
  afterEach(() => {
    for (const origin of opened.splice(0)) origin.close();
  });
  after(async () => {
    client?.destroy();
    await server?.stop();
  });

  async function put(key: string, body: string, bucket = 'models'): Promise<string> {
    return (
      (
        await client.send(
          new PutObjectCommand({
            Bucket: bucket,
            Key: key,
            Body: Buffer.from(body),
            ContentLength: Buffer.byteLength(body),
          }),
        )
      ).ETag ?? ''
    );
  }

  function open(prefix: string, options: OriginOptions = {}, allowPrivate = true): Origin {
    const origin = openS3(
      `s3://${prefix}?endpoint=${server.endpoint}`,
      { credentials: server.keys, ...options },
      allowPrivate,
    );
    opened.push(origin);
    return origin;
  }

  it('lists a prefix as a folder, and locates objects that are readable without credentials', async () => {
    const began = Date.now();
    const etag = await put('llama/weights 1+ü%20#?.bin', 'some weights');
    await put('llama/sub/config.json', '{}');
    await put('llama/empty/', '');
    await put('llama-2/other', 'not below the prefix');
    const origin = open('models/llama');
    const rows = await listAll(origin);
    assert.deepEqual(
      rows.map(({ path, kind, size }) => [path, kind, size]),
      [
        ['empty', 'directory', 0n],
        ['sub/config.json', 'file', 2n],
        ['weights 1+ü%20#?.bin', 'file', 12n],
      ],
    );
    const weights = rows[2] as ManifestRow;
    assert.equal(weights.validator, `etag:${etag}`);
    assert.match(etag, /^".+"$/);
    assert.equal(
      weights.contentKey,
      s3EtagKey(`${server.endpoint}/models/llama/weights%201%2B%C3%BC%2520%23%3F.bin`, etag),
    );
    const modified = Number((weights.modifiedAtNs ?? 0n) / 1_000_000n);
    // S3 truncates the time to whole seconds.
    assert.ok(modified > began - 1_000 && modified <= Date.now(), `${modified}`);
    const before = Date.now();
    // Another agent, which has not listed, locates the same object.
    const [location] = await open('models/llama/', { locationSeconds: 600 }).locate(locatable([weights]), signal());
    const expiresAt = location?.expiresAt ?? 0;
    assert.ok(expiresAt >= before + 599_000 && expiresAt <= Date.now() + 600_000);
    const response = await fetch(location?.url ?? '', { headers: { range: 'bytes=5-11' } });
    assert.equal(response.status, 206);
    assert.equal(await response.text(), 'weights');
    assert.equal(response.headers.get('etag'), etag);
    assert.doesNotMatch(origin.describe(), new RegExp(server.keys.accessKeyId));
  });

  it('lists one object when the prefix names it', async () => {
    const etag = await put('one/model.bin', 'alone');
    await put('one/model.bin.sha256', 'x');
    const origin = open('models/one/model.bin');
    const rows = await listAll(origin);
    assert.deepEqual(
      rows.map(({ path, validator }) => [path, validator]),
      [['model.bin', `etag:${etag}`]],
    );
    const [location] = await origin.locate(locatable(rows), signal());
    assert.equal(await (await fetch(location?.url ?? '')).text(), 'alone');
  });

  it('lists more objects than fit on a page', async () => {
    const names = Array.from({ length: 1100 }, (_, i) => `many/${String(i).padStart(4, '0')}`);
    for (let i = 0; i < names.length; i += 50) await Promise.all(names.slice(i, i + 50).map((name) => put(name, 'x')));
    assert.deepEqual(
      (await listAll(open('models/many'))).map(({ path }) => `many/${path}`),
      names,
    );
  });

  it('names the fault of bucket, prefix and credentials, without secrets', async () => {
    const secret = server.keys.secretAccessKey;
    const cases: [string, OriginOptions, string, RegExp][] = [
      ['no-such-bucket/x', {}, 'NotFound', /no bucket no-such-bucket/],
      ['models/no/such/prefix', {}, 'NotFound', /no object exists at s3:\/\/models\/no\/such\/prefix/],
      ['models', { credentials: { ...server.keys, secretAccessKey: `${secret}x` } }, 'Unauthenticated', /secret key/],
      [
        'models',
        { credentials: { accessKeyId: 'AKUNKNOWN', secretAccessKey: secret } },
        'Unauthenticated',
        /not known/,
      ],
    ];
    for (const [prefix, options, code, message] of cases) {
      await assert.rejects(listAll(open(prefix, options)), (error: { code: string; message: string }) => {
        assert.equal(error.code, code, error.message);
        assert.match(error.message, message);
        assert.ok(!error.message.includes(secret) && !error.message.includes('Signature='), error.message);
        return true;
      });
    }
  });

  async function withoutIdentity(work: () => Promise<void>): Promise<void> {
    const saved = { ...process.env };
    for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
    Object.assign(process.env, {
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_CONFIG_FILE: '/dev/null',
      AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    });
    try {
      await work();
    } finally {
      for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
      Object.assign(process.env, saved);
    }
  }

  it('reads unsigned without credentials, and reports when that is not allowed', async () => {
    await put('private/x', 'x');
    await withoutIdentity(async () => {
      const origin = openS3(`s3://models/private?endpoint=${server.endpoint}`, {});
      opened.push(origin);
      await assert.rejects(listAll(origin), {
        code: 'Unauthenticated',
        message: /no AWS credentials; set AWS_ACCESS_KEY_ID/,
      });
      const [location] = await origin.locate([{ index: 0, path: 'x', contentKey: '', validator: '' }], signal());
      assert.deepEqual(location, { entry: 0, url: `${server.endpoint}/models/private/x` });
    });
  });

  it('refuses private folders of a bucket to callers who may only list it', async () => {
    const Bucket = 'mixed';
    await client.send(new CreateBucketCommand({ Bucket }));
    for (const key of ['README.md', 'open/a', 'secret/b', 'secret/c']) await put(key, key, Bucket);
    const allow = (Action: string, ...paths: string[]) => ({
      Effect: 'Allow',
      Principal: '*',
      Action,
      Resource: paths.map((path) => `arn:aws:s3:::${Bucket}${path}`),
    });
    const Statement = [allow('s3:ListBucket', ''), allow('s3:GetObject', '/README.md', '/open/*')];
    await client.send(new PutBucketPolicyCommand({ Bucket, Policy: JSON.stringify({ Statement }) }));
    const prove = async (origin: Origin) => {
      opened.push(origin);
      const proof = new ReadingProof(origin);
      proof.note(await listAll(origin));
      await proof.read(signal());
    };
    await withoutIdentity(async () => {
      const anonymous = (prefix: string) => openS3(`s3://${Bucket}${prefix}?endpoint=${server.endpoint}`, {});
      await assert.rejects(prove(anonymous('')), {
        code: 'PermissionDenied',
        message: /^the origin lists secret\/[bc], but refuses to serve it: /,
      });
      await prove(anonymous('/open'));
    });
    const { keys: credentials, endpoint } = server;
    await prove(openS3(`s3://${Bucket}?endpoint=${endpoint}`, { credentials }));
  });

  it('refuses an endpoint in a private range', async () => {
    await assert.rejects(listAll(open('models', {}, false)), {
      code: 'PermissionDenied',
      message: /127\.0\.0\.1 has a loopback address/,
    });
    await assert.doesNotReject(listAll(open('models', { allowedAddresses: ['127.0.0.1'] }, false)));
  });

  it('presigns many locations', async () => {
    const entries = Array.from({ length: 10_000 }, (_, index) => ({
      index,
      path: `f${index}`,
      contentKey: '',
      validator: '',
    }));
    const origin = open('models');
    await origin.locate(entries.slice(0, 10), signal());
    const began = performance.now();
    assert.equal((await origin.locate(entries, signal())).length, entries.length);
    const rate = entries.length / ((performance.now() - began) / 1000);
    console.log(`        ${Math.round(rate)} presigned locations a second`);
  });
});

describe('S3Origin against answers of AWS', () => {
  let server: Server;
  let endpoint = '';
  let answer: { status: number; body: string; headers?: Record<string, string> };
  const credentials = { accessKeyId: 'AKEXAMPLE', secretAccessKey: 'very-secret' };

  before((done) => {
    server = createServer((_request, response) => {
      response.writeHead(answer.status, { 'content-type': 'application/xml', ...answer.headers }).end(answer.body);
    }).listen(0, '127.0.0.1', () => {
      endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      done();
    });
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const error = (code: string) => `<?xml version="1.0"?><Error><Code>${code}</Code><Message>m</Message></Error>`;

  async function failure(status: number, body: string, headers: Record<string, string> = {}): Promise<string> {
    answer = { status, body, headers };
    const origin = openS3(`s3://bucket/x?endpoint=${endpoint}&region=us-east-1`, { credentials });
    try {
      await listAll(origin);
    } catch (thrown) {
      const { code, message } = thrown as { code: string; message: string };
      assert.doesNotMatch(message, /very-secret|Signature=/);
      return `${code}: ${message}`;
    } finally {
      origin.close();
    }
    return 'no error';
  }

  it('maps the error codes', async () => {
    assert.match(await failure(403, error('AccessDenied')), /^PermissionDenied: .*s3:ListBucket/);
    assert.match(await failure(403, error('ExpiredToken')), /^Unauthenticated: .*session token has expired/);
    assert.match(await failure(400, error('ExpiredToken')), /^Unauthenticated: /);
    assert.match(await failure(403, error('RequestTimeTooSkewed')), /^Unavailable: .*clock/);
    assert.match(
      await failure(301, error('PermanentRedirect'), { 'x-amz-bucket-region': 'eu-west-1' }),
      /^InvalidArgument: .*\?region=eu-west-1/,
    );
    assert.match(await failure(400, error('AuthorizationHeaderMalformed')), /^InvalidArgument: .*another region/);
    assert.match(await failure(503, error('SlowDown')), /^Unavailable: .*overloaded/);
    assert.match(await failure(500, error('InternalError')), /^Unavailable: /);
    assert.match(await failure(200, '<html><body>hello'), /^ProtocolError: .*check the endpoint/);
    assert.match(await failure(404, 'not xml at all'), /^ProtocolError: /);
  });

  it('ends endless answers and listings', async () => {
    const long = `<ListBucketResult>${' '.repeat(33 * 1024 * 1024)}`;
    for (const status of [200, 403]) {
      assert.match(await failure(status, long), /^ProtocolError: an answer of .* is over 32 MiB/);
    }
    const page = `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>
      </ListBucketResult>`;
    assert.match(await failure(200, page), /^ProtocolError: .* continues a listing without/);
  });

  it('refuses archived objects by name', async () => {
    const body = `<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>x/cold</Key><Size>5</Size><ETag>"e"</ETag>
      <StorageClass>GLACIER</StorageClass></Contents></ListBucketResult>`;
    assert.match(await failure(200, body), /^Unsupported: the object x\/cold is archived \(GLACIER\)/);
  });

  it('reports that no server answers', async () => {
    const origin = openS3('s3://bucket/x?endpoint=http://127.0.0.1:1', { credentials });
    await assert.rejects(listAll(origin), {
      code: 'Unavailable',
      message: /127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\)/,
    });
    origin.close();
  });

  it('ends when it is cancelled', async () => {
    answer = { status: 200, body: '' };
    const origin = openS3(`s3://bucket/x?endpoint=${endpoint}`, { credentials });
    await assert.rejects(listAll(origin, AbortSignal.abort()), { code: 'Cancelled' });
    origin.close();
  });
});
