import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { authorityLifeMs, leafLifeMs } from '../certificates/index.ts';
import type { SecretTexts } from '../kubernetes/index.ts';
import { planWebhookCertificates } from './certificates.ts';

const name = 'hearth-webhook.hearth-system.svc';
const now = new Date(Date.UTC(2026, 0, 1));
const after = (ms: number) => new Date(now.getTime() + ms);
const plan = (observed: SecretTexts, trusted: string, at = now) => planWebhookCertificates(name, observed, trusted, at);
const authorities = (texts: SecretTexts) => texts['ca.crt']?.match(/BEGIN CERTIFICATE/g)?.length;
/** True when a client that trusts this bundle trusts the certificate. */
function isBelieved(texts: SecretTexts, bundle: string): boolean {
  const leaf = new X509Certificate(texts['tls.crt'] ?? '');
  const known = bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return known.some((one) => leaf.verify(new X509Certificate(one).publicKey));
}

describe('certificates of the webhook', () => {
  it('are made once, for the name of the Service', async () => {
    const first = await plan({}, '');
    assert.match(first.reason ?? '', /new authority was needed: there was none/);
    const leaf = new X509Certificate(first.texts['tls.crt'] ?? '');
    assert.equal(leaf.subjectAltName, `DNS:${name}`);
    assert.ok(isBelieved(first.texts, first.texts['ca.crt'] ?? ''));
    assert.equal(first.renewAt.getTime(), now.getTime() + 1000, 'until the API server knows the authority');
    const second = await plan(first.texts, first.texts['ca.crt'] ?? '');
    assert.equal(second.reason, undefined);
    assert.deepEqual(second.texts, first.texts);
    const until = second.renewAt.getTime() - now.getTime();
    assert.ok(Math.abs(until - (leafLifeMs * 2) / 3) < 3_600_000);
  });

  it('are renewed when two thirds of their life are over, damaged, or of another name', async () => {
    const { texts } = await plan({}, '');
    const bundle = texts['ca.crt'] ?? '';
    const renewed = await plan(texts, bundle, after(leafLifeMs * 0.7));
    assert.match(renewed.reason ?? '', /two thirds/);
    assert.equal(renewed.texts['ca.crt'], bundle);
    assert.notEqual(renewed.texts['tls.crt'], texts['tls.crt']);
    for (const damage of [{ 'tls.key': '' }, { 'tls.crt': 'x' }]) {
      assert.match((await plan({ ...texts, ...damage }, bundle)).reason ?? '', /new certificate was needed/);
    }
    const other = await planWebhookCertificates('hearth-webhook.other.svc', texts, bundle, now);
    assert.match(other.reason ?? '', /for other names/);
  });

  it('change their authority without a moment at which the API server would not believe', async () => {
    const { texts } = await plan({}, '');
    const old = texts['ca.crt'] ?? '';
    const late = after(authorityLifeMs * 0.67);
    // The certificate is young when the authority becomes old.
    const young = await plan({ ...texts, 'tls.crt': '', 'tls.key': '' }, old, after(authorityLifeMs * 0.666));
    const begun = await plan(young.texts, old, late);
    assert.equal(authorities(begun.texts), 2);
    assert.ok(isBelieved(begun.texts, old), 'the API server knows only the old one yet');
    assert.equal(begun.renewAt.getTime(), late.getTime() + 1000);
    const waiting = await plan(begun.texts, old, late);
    assert.equal(waiting.reason, undefined, 'nothing is written again meanwhile');
    const done = await plan(begun.texts, begun.texts['ca.crt'] ?? '', late);
    assert.match(done.reason ?? '', /another authority signed it/);
    assert.ok(isBelieved(done.texts, begun.texts['ca.crt'] ?? ''));
    assert.ok(!isBelieved(done.texts, old));
    const last = await plan(done.texts, done.texts['ca.crt'] ?? '', after(authorityLifeMs + 1));
    assert.equal(authorities(last.texts), 1);
  });

  it('are made again when the key of the authority is lost', async () => {
    const { texts } = await plan({}, '');
    const lost = await plan({ ...texts, 'ca.key': '' }, texts['ca.crt'] ?? '');
    assert.match(lost.reason ?? '', /its key does not belong to it/);
    assert.ok(isBelieved(lost.texts, texts['ca.crt'] ?? ''), 'what is there goes on');
  });
});
