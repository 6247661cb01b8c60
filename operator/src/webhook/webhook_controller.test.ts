import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { kinds, type MutatingWebhookConfiguration, type Secret } from '@hearth/common/kubernetes';
import { MemoryApi } from '@hearth/common/kubernetes/testing';
import { reconcileKey } from '../reconciler/index.ts';
import { type ObservedWebhook, WebhookReconciler, webhookName } from './webhook_controller.ts';

const { signal } = new AbortController();
const day = 86_400_000;
const start = new Date('2026-01-01T00:00:00Z');

describe('reconciler of the webhook', () => {
  let api: MemoryApi;
  let now: Date;
  let reconciler: WebhookReconciler;
  const source = (plural: string) => ({ get: (key: string) => api.objects.get(`${plural}/${key}`) }) as never;
  const secret = () => api.objects.get(`secrets/hearth/${webhookName}`) as Secret | undefined;
  beforeEach(() => {
    api = new MemoryApi();
    now = start;
    reconciler = new WebhookReconciler({
      api,
      namespace: 'hearth',
      secrets: source('secrets'),
      configurations: source('mutatingwebhookconfigurations'),
      logger: silentLogger,
      now: () => now,
    });
  });
  const plan = (fields: Partial<ObservedWebhook>, reason?: string) => {
    const certificates = { texts: { 'ca.crt': 'authority' }, reason, renewAt: new Date(start.getTime() + day) };
    return reconciler.plan('', { now: start, trusted: 'authority', certificates, ...fields });
  };

  it('writes what is to be renewed, then what the API server does not believe yet', () => {
    assert.deepEqual(plan({}), []);
    assert.deepEqual(
      plan({ trusted: 'another' }, 'it has expired').map(({ kind }) => kind),
      ['writeSecret', 'writeAuthorities'],
    );
    assert.deepEqual(plan({ trusted: '' }), [{ kind: 'writeAuthorities', authorities: 'authority' }]);
    assert.deepEqual(plan({ trusted: undefined }), [{ kind: 'reportMissing' }]);
  });

  it('makes both, writes nothing while they hold, and looks again when they are to be renewed', async () => {
    const configuration: MutatingWebhookConfiguration = { metadata: { name: webhookName } };
    await api.create(kinds.MutatingWebhookConfiguration, configuration);
    const pass = reconcileKey(reconciler, (key) => key);
    await pass(webhookName, signal);
    const authorities = Buffer.from(secret()?.data?.['ca.crt'] ?? '', 'base64').toString();
    assert.match(authorities, /BEGIN CERTIFICATE/);
    assert.equal((await reconciler.observe()).trusted, authorities);
    // The authority is trusted now: from here on all stays as it is.
    const { requeueAfterMs = 0 } = await pass(webhookName, signal);
    assert.equal(requeueAfterMs, 3_600_000);
    api.calls.length = 0;
    now = new Date(start.getTime() + day);
    await pass(webhookName, signal);
    assert.deepEqual(api.calls, []);
    now = new Date(start.getTime() + 400 * day);
    await pass(webhookName, signal);
    assert.equal(api.calls[0], `apply Secret ${webhookName}`);
  });
});
