import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { Agent, request } from 'node:https';
import { HearthError, silentLogger } from '@hearth/common';
import { elapse, until } from '@hearth/common/testing';
import { Registry } from '@prometheus-io/client';
import type { PodDatasets } from '../gates/index.ts';
import { datasetOf, inline, podOf } from '../gates/testing/objects.ts';
import { planWebhookCertificates } from './certificates.ts';
import { Webhook, WebhookMetrics } from './webhook.ts';
import { WebhookServer } from './webhook_server.ts';

const name = 'hearth-webhook.hearth-system.svc';

function review(object: unknown, fields: object = {}): object {
  const resource = { group: '', version: 'v1', resource: 'pods' };
  const body = { uid: 'u-1', resource, namespace: 'team', operation: 'CREATE', object, ...fields };
  return { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: body };
}

describe('server of the webhook', () => {
  let server: WebhookServer;
  let registry: Registry;
  let port: number;
  let texts: Readonly<Record<string, string>>;
  let lookUp: (signal: AbortSignal) => Promise<PodDatasets>;
  const agent = new Agent({ keepAlive: false, maxCachedSessions: 0 });

  before(async () => {
    texts = (await planWebhookCertificates(name, {}, '', new Date())).texts;
  });
  beforeEach(async () => {
    const found = { datasets: [datasetOf('llama', { mode: 'Wait' })], missing: [], foreign: false, former: [] };
    lookUp = async () => found;
    registry = new Registry();
    const metrics = new WebhookMetrics(registry, () => server.expiresAt?.getTime());
    const facts = { of: (_pod: unknown, _namespace: string, signal: AbortSignal) => lookUp(signal) };
    const webhook = new Webhook({ facts, metrics, logger: silentLogger });
    server = new WebhookServer({ webhook, logger: silentLogger, reserveMs: 800 });
    port = await server.listen(0, '127.0.0.1');
  });
  afterEach(() => server.close(0));

  function post(body: string | Buffer, path = '/mutate-pods?timeout=1s', options: object = {}) {
    return new Promise<{ status: number; text: string; serial: string }>((resolve, reject) => {
      const given = { port, host: '127.0.0.1', servername: name, ca: texts['ca.crt'], agent, path, method: 'POST' };
      const asked = request({ ...given, ...options }, (response) => {
        let text = '';
        const socket = response.socket as import('node:tls').TLSSocket;
        const serial = socket.getPeerX509Certificate()?.serialNumber ?? '';
        response.setEncoding('utf8').on('data', (part) => {
          text += part;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text, serial }));
      });
      asked.on('error', reject);
      asked.setTimeout(300_000, () => asked.destroy(new Error('no answer')));
      asked.end(body);
    });
  }
  async function ask(body: object, path?: string) {
    const { status, text } = await post(JSON.stringify(body), path);
    assert.equal(status, 200, text);
    return JSON.parse(text).response;
  }
  const certify = () => server.setCertificate(texts['tls.crt'] ?? '', texts['tls.key'] ?? '');
  const counted = async (result: string) =>
    (await registry.metrics()).includes(`hearth_webhook_reviews_total{result="${result}"} 1`);

  it('answers no request before it has a certificate', async () => {
    assert.equal(server.expiresAt, undefined);
    await assert.rejects(post('{}'));
    certify();
    assert.ok(server.expiresAt);
    assert.equal((await post('{}')).status, 400);
  });

  it('answers with a patch', async () => {
    certify();
    const response = await ask(review(podOf('web', [inline('llama')])));
    assert.deepEqual([response.uid, response.allowed, response.patchType], ['u-1', true, 'JSONPatch']);
    const patch = JSON.parse(Buffer.from(response.patch, 'base64').toString());
    assert.equal(patch[0].path, '/spec/schedulingGates');
    assert.ok(await counted('gated'));
  });

  it('admits everything that it has nothing to say about', async () => {
    certify();
    const pod = podOf('web', [inline('llama')]);
    for (const body of [
      review(pod, { operation: 'UPDATE' }),
      review(pod, { namespace: '' }),
      review(pod, { resource: { group: 'apps', resource: 'pods' } }),
      review(pod, { subResource: 'binding' }),
      review(null),
      review('pod'),
      review([]),
    ]) {
      assert.deepEqual(await ask(body), { uid: 'u-1', allowed: true }, JSON.stringify(body));
    }
  });

  it('admits a pod as it is when it cannot look, or not in time', async () => {
    certify();
    lookUp = async () => {
      throw new HearthError('Unavailable', 'the API server is away');
    };
    assert.deepEqual(await ask(review(podOf('web', []))), { uid: 'u-1', allowed: true });
    assert.ok(await counted('failed'));
    lookUp = () => new Promise(() => undefined);
    // Without a time of its own it would never answer.
    assert.deepEqual(await ask(review(podOf('web', []))), { uid: 'u-1', allowed: true });
    assert.ok(await counted('late'));
  });

  it('admits objects of any shape', async () => {
    certify();
    for (const object of [
      {},
      { spec: null },
      { spec: { volumes: 'all' } },
      { metadata: [], spec: { containers: 5 } },
    ]) {
      assert.equal((await ask(review(object))).allowed, true, JSON.stringify(object));
    }
  });

  it('says what it cannot answer', async () => {
    certify();
    assert.equal((await post('{', undefined)).status, 400);
    assert.equal((await post('{"kind":"AdmissionReview"}')).status, 400);
    const { kind: _, ...unnamed } = review({}) as { kind: string };
    assert.equal((await post(JSON.stringify(unnamed))).status, 400);
    assert.equal((await post(JSON.stringify(review({}, { uid: '' })))).status, 400);
    assert.equal((await post('{}', '/else')).status, 404);
    assert.equal((await post(Buffer.alloc(5 * 1024 * 1024, 32)).catch(() => ({ status: 413 }))).status, 413);
    const chunked = { headers: { 'transfer-encoding': 'chunked' } };
    const long = await post(Buffer.alloc(5 * 1024 * 1024, 32), undefined, chunked).catch(() => ({ status: 413 }));
    assert.equal(long.status, 413);
    assert.equal((await ask(review(podOf('web', [])))).allowed, true, 'it goes on');
  });

  it('shows a new certificate from the next connection on, and keeps its own when that is damaged', async () => {
    certify();
    const { serial } = await post('{}');
    const next = (await planWebhookCertificates(name, { ...texts, 'tls.crt': '' }, texts['ca.crt'] ?? '', new Date()))
      .texts;
    server.setCertificate(next['tls.crt'] ?? '', next['tls.key'] ?? '');
    const renewed = await post('{}');
    assert.notEqual(renewed.serial, serial);
    assert.equal(renewed.serial, new X509Certificate(next['tls.crt'] ?? '').serialNumber);
    assert.throws(() => server.setCertificate(texts['tls.crt'] ?? '', next['tls.key'] ?? ''), {
      code: 'InvalidArgument',
    });
    assert.throws(() => server.setCertificate('none', ''), { code: 'InvalidArgument' });
    assert.equal((await post('{}')).serial, renewed.serial);
  });

  it('gives the answers that it owes when it ends', async () => {
    certify();
    const owed = lookUp;
    let looked = false;
    lookUp = async (signal) => {
      looked = true;
      await elapse(150, 'the server is closed meanwhile');
      return await owed(signal);
    };
    const asked = ask(review(podOf('web', [inline('llama')])), '/mutate-pods?timeout=300s');
    await until('it looks', () => looked);
    const ending = server.close(0);
    assert.equal((await asked).patchType, 'JSONPatch');
    await ending;
    await assert.rejects(post('{}'));
  });

  it('speaks no TLS older than 1.2', async () => {
    certify();
    await assert.rejects(
      post('{}', undefined, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL@SECLEVEL=0' }),
    );
    assert.equal((await post('{}', undefined, { maxVersion: 'TLSv1.2' })).status, 400);
  });
});
