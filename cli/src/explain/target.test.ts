import assert from 'node:assert/strict';
import { systemClock } from '@hearth/common';
import type { KubernetesClient } from '@hearth/common/kubernetes';
import { TestClock } from '@hearth/common/testing';
import { choosePod, parseTarget } from './target.ts';

const signal = new AbortController().signal;
const gate = { schedulingGates: [{ name: 'hearth.storage/preload' }] };

/** A namespace with one Deployment and these pods; `asked` collects the selector of each list. */
function client(pods: object[], asked: string[] = []) {
  return {
    get: async (type: { kind: string }, name: string) =>
      type.kind === 'Deployment' && name === 'web'
        ? { spec: { selector: { matchLabels: { app: 'web', tier: 'a' } } } }
        : undefined,
    list: async (_type: unknown, options: { labelSelector?: string }) => {
      asked.push(options.labelSelector ?? '');
      return { items: pods, resourceVersion: '1' };
    },
  } as unknown as Pick<KubernetesClient, 'get' | 'list'>;
}

const pod = (name: string, creationTimestamp: string, spec: object, phase = 'Pending') => ({
  metadata: { name, creationTimestamp },
  spec,
  status: { phase },
});

describe('target of hearth explain', () => {
  it('is parsed like by kubectl', () => {
    assert.deepEqual(parseTarget('web-0'), { kind: 'pod', name: 'web-0' });
    assert.deepEqual(parseTarget('po/web-0'), { kind: 'pod', name: 'web-0' });
    assert.deepEqual(parseTarget('deploy/web'), { kind: 'deployment', name: 'web' });
    assert.deepEqual(parseTarget('Deployments/web'), { kind: 'deployment', name: 'web' });
    assert.deepEqual(parseTarget('lws/web'), { kind: 'leaderworkerset', name: 'web' });
    for (const odd of ['service/web', 'pod/', 'pod/a/b', '/web']) {
      assert.throws(() => parseTarget(odd), { code: 'InvalidArgument' }, odd);
    }
  });

  it('is the least advanced pod of a Deployment, youngest first', async () => {
    const pods = [
      pod('old', '2026-01-01T00:00:00Z', { nodeName: 'n1' }, 'Running'),
      pod('held', '2026-01-01T00:00:01Z', gate),
      pod('held-too', '2026-01-01T00:00:02Z', gate),
      pod('ended', '2026-01-01T00:00:03Z', { nodeName: 'n1' }, 'Failed'),
    ];
    const asked: string[] = [];
    const chosen = await choosePod(client(pods, asked), 'team', parseTarget('deployment/web'), systemClock, signal);
    assert.deepEqual(chosen, { pod: 'held-too', listed: pods[2], others: ['held', 'old', 'ended'] });
    assert.deepEqual(asked, ['app=web,tier=a']);
  });

  it('finds the pods of a Job by label, without reading the Job', async () => {
    const asked: string[] = [];
    const one = pod('train-1', '2026-01-01T00:00:00Z', { nodeName: 'n1' });
    const { pod: name } = await choosePod(client([one], asked), 'team', parseTarget('job/train'), systemClock, signal);
    assert.equal(name, 'train-1');
    assert.deepEqual(asked, ['batch.kubernetes.io/job-name=train']);
  });

  it('must exist', async () => {
    const choosing = choosePod(client([]), 'team', parseTarget('deployment/other'), systemClock, signal);
    await assert.rejects(choosing, { code: 'NotFound', message: /no deployment team\/other/ });
  });

  it('gives controllers bounded time to create the first pod', async () => {
    const clock = new TestClock();
    const pods: object[] = [];
    const choose = () => choosePod(client(pods), 'team', parseTarget('deployment/web'), clock, signal);
    const refused = assert.rejects(choose(), { code: 'NotFound', message: /team\/web has no pod/ });
    await clock.advance(6_000);
    await refused;
    const choosing = choose();
    await clock.advance(1_000);
    pods.push(pod('web-1', '2026-01-01T00:00:00Z', gate));
    await clock.advance(1_000);
    assert.equal((await choosing).pod, 'web-1');
  });
});
