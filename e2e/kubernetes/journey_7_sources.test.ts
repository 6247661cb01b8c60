import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { bytesOf, MiB, needsPrograms, ok, root, sha256 } from '@hearth/common/testing';
import { type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { HubServer, S3Server } from '@hearth/common/testing/origins';
import { parseAllDocuments } from 'yaml';
import { inline, ofClaim, useJourney, verifying } from './journey.ts';

const secretsGrant = [
  ...['create', 'rolebinding', 'hearth-secrets', '--clusterrole=hearth-secrets'],
  `--serviceaccount=${releaseNamespace}:hearth-operator`,
];

describe('sources with credentials', () => {
  const journey = useJourney('sources');
  const weights = bytesOf(71, 9 * MiB + 7);
  const files = {
    'model.safetensors': weights,
    'config.json': Buffer.from('{"model_type": "bert"}\n'),
    'vocab.txt': bytesOf(72, 200_000),
    'pytorch_model.bin': bytesOf(73, 1000),
  };
  const token = `hf_${randomBytes(17).toString('hex')}`;
  let hub: HubServer;
  let s3: S3Server | undefined;

  before(async () => {
    const { hostAddress } = journey().cluster.network;
    hub = await HubServer.start(hostAddress, 'sentence-transformers/all-MiniLM-L6-v2', files, { token });
    await journey().must(...secretsGrant);
  });
  after(async () => {
    await hub?.[Symbol.asyncDispose]();
    await s3?.stop();
  });

  const secret = (name: string, stringData: Record<string, string>): Manifest => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: journey().namespace },
    stringData,
  });

  it('runs the example of a model of a hub, here a gated one', async () => {
    const documents = parseAllDocuments(readFileSync(join(root, 'examples/model.yaml'), 'utf8'));
    const [dataset, claim, pod] = documents.map((one) => one.toJS() as Manifest);
    assert.ok(dataset && claim && pod);
    dataset.spec.source.hub.endpoint = hub.url;
    dataset.spec.secretRef = { name: 'hub' };
    Object.assign(pod.spec.containers[0], { image: 'local/busybox:1', imagePullPolicy: 'Never' });
    await journey().apply(secret('hub', { token }), dataset, claim, pod);
    await journey().ready('dataset/minilm');
    const log = await journey().finished('minilm');
    assert.match(log, new RegExp(`^${sha256(weights)}  /models/model.safetensors$`, 'm'));
    assert.match(log, /config\.json/);
    assert.doesNotMatch(log, /pytorch_model\.bin/, 'not among the files that are included');
    const { status } = (await journey().get('dataset', 'minilm')) as Manifest;
    assert.equal(status.files, 3);
    assert.match(status.revision, /^[0-9a-f]{40}$/, 'a commit');
    const { count, authorized } = hub.storeRequests;
    assert.ok(count > 0, 'its bytes came from where the hub sends to');
    assert.equal(authorized, 0, 'which the token was never shown to');
  });

  it('reads a bucket, in a pod and with the keys of a Secret', async function () {
    const host = journey().cluster.network.hostAddress;
    s3 = await needsPrograms(this, () => S3Server.start({ host }));
    const { endpoint, keys } = s3;
    const { accessKeyId, secretAccessKey } = keys;
    const client = new S3Client({ endpoint, credentials: keys, region: 'us-east-1', forcePathStyle: true });
    const objects = { 'shard-0': bytesOf(74, 9 * MiB), 'sub/shard-1': bytesOf(75, 70_000) };
    const sums = Object.entries(objects).map(([path, bytes]) => `${sha256(bytes)}  ${path}\n`);
    try {
      await client.send(new CreateBucketCommand({ Bucket: 'models' }));
      for (const [path, Body] of Object.entries({ ...objects, SHA256SUMS: Buffer.from(sums.join('')) })) {
        await client.send(new PutObjectCommand({ Bucket: 'models', Key: `llama/${path}`, Body }));
      }
      await client.send(new PutObjectCommand({ Bucket: 'models', Key: 'other', Body: 'not below the prefix' }));
    } finally {
      client.destroy();
    }
    const source = { s3: { bucket: 'models', prefix: 'llama/', endpoint, region: 'us-east-1', pathStyle: true } };
    await journey().apply(
      secret('keys', { accessKeyId, secretAccessKey }),
      secret('wrong-keys', { accessKeyId, secretAccessKey: randomBytes(20).toString('hex') }),
      journey().dataset('bucket', source, { secretRef: { name: 'keys' } }),
      journey().dataset('closed', source, { secretRef: { name: 'wrong-keys' } }),
      journey().claim('bucket'),
      journey().reader('bucket', ofClaim('bucket'), { command: verifying }),
      journey().reader('elsewhere', inline('bucket'), { command: verifying, node: 'node2' }),
    );
    await journey().ready('dataset/bucket');
    assert.equal((await journey().get('dataset', 'bucket'))?.status.files, 3);
    for (const name of ['bucket', 'elsewhere'])
      assert.equal((await journey().finished(name)).match(/: OK\n/g)?.length, 2);
    await journey().reason('dataset', 'closed', 'Unauthenticated');
  });

  it('shows no secret: not in logs, not in events, not in any object but Secrets', async () => {
    const secrets = await everySecret();
    assert.ok(secrets.size > 8, [...secrets.keys()].join());
    secrets.set('the signature of an address', hub.signature);
    const texts = { ...(await everyObject()), ...everyLog() };
    assert.ok(Object.keys(texts).length > 40, Object.keys(texts).join());
    const found: string[] = [];
    for (const [where, text] of Object.entries(texts)) {
      for (const [what, value] of secrets) if (text.includes(value)) found.push(`${what} in ${where}`);
    }
    assert.deepEqual(found, []);
    assert.match(Object.values(texts).join('\n'), /all-MiniLM-L6-v2/, 'it was looked in the right places');
  });

  /** Values of all Secrets, of users and of Hearth, by where they stand; certificates are no secrets. */
  async function everySecret(): Promise<Map<string, string>> {
    const { items } = JSON.parse(await ok(journey().cluster.kubectl(['get', 'secrets', '-A', '-o', 'json'])));
    const found = new Map<string, string>();
    for (const { metadata, type, data = {} } of items as (Manifest & { data?: Record<string, string> })[]) {
      // helm keeps the values that it was given, and they hold no Secret.
      if (type === 'helm.sh/release.v1') continue;
      for (const [key, encoded] of Object.entries(data)) {
        if (key.endsWith('.crt')) continue;
        const text = Buffer.from(encoded, 'base64').toString();
        // Of a private key any line gives it all away.
        const value = /^-----BEGIN [A-Z ]+-----\n(.+)$/m.exec(text)?.[1] ?? text.trim();
        found.set(`${key} of ${metadata.namespace}/${metadata.name}`, value);
      }
    }
    return found;
  }

  /** All objects of all kinds, events among them, as YAML by kind; not Secrets. */
  async function everyObject(): Promise<Record<string, string>> {
    const kinds = (await ok(journey().cluster.kubectl(['api-resources', '--verbs=list', '-o', 'name']))).trim();
    const texts: Record<string, string> = {};
    for (const kind of kinds.split('\n').filter((name) => name !== 'secrets')) {
      texts[kind] = await ok(journey().cluster.kubectl(['get', kind, '-A', '-o', 'yaml']));
    }
    return texts;
  }

  /** The output of every program and pod of the cluster. */
  function everyLog(): Record<string, string> {
    const folder = mkdtempSync(join(tmpdir(), 'hearth-logs-'));
    try {
      journey().cluster.collectLogs(folder);
      const paths = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      return Object.fromEntries(
        paths.map(({ parentPath, name }) => {
          const path = join(parentPath, name);
          return [path.slice(folder.length + 1), readFileSync(path, 'utf8')];
        }),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
});
