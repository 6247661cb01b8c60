import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { Node } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster, sampleNode } from '../storage_cluster/testing/samples.ts';
import { NodeReconciler } from './node_reconciler.ts';
import { decideTaint } from './taint.ts';

const minute = 60_000;
const signal = new AbortController().signal;

describe('startup taint', () => {
  const tainted = sampleNode('n1', { tainted: true });
  const cases: [what: string, decision: ReturnType<typeof decideTaint>, kind: string][] = [
    [
      'goes when the agent is ready',
      decideTaint(tainted, sampleCluster(), { agentReady: true, holdsDemanded: true }, 0, minute),
      'remove',
    ],
    [
      'stays while it is not',
      decideTaint(tainted, sampleCluster(), { agentReady: false, holdsDemanded: true }, 0, minute),
      'wait',
    ],
    [
      'goes after the timeout anyway',
      decideTaint(tainted, sampleCluster(), { agentReady: false, holdsDemanded: true }, 0, 10 * minute),
      'remove',
    ],
    [
      'stays while bytes are missing',
      decideTaint(tainted, sampleCluster(), { agentReady: true, holdsDemanded: false }, 0, minute),
      'wait',
    ],
    [
      'stays on nodes of no cluster',
      decideTaint(tainted, undefined, { agentReady: true, holdsDemanded: true }, 0, 11 * minute),
      'keep',
    ],
    [
      'stays when the cluster does not want it away',
      decideTaint(
        tainted,
        sampleCluster({ startupTaint: { enabled: false } }),
        { agentReady: true, holdsDemanded: true },
        0,
        0,
      ),
      'keep',
    ],
    [
      'is not missed',
      decideTaint(sampleNode('n1'), sampleCluster(), { agentReady: true, holdsDemanded: true }, 0, 0),
      'keep',
    ],
  ];
  for (const [what, decision, kind] of cases) it(what, () => assert.equal(decision.kind, kind));
});

describe('NodeReconciler', () => {
  const created = Date.parse('2026-01-01T00:00:00Z');

  function setUp(options: { ready?: boolean; zone?: string; call?: () => Promise<object> }) {
    const node = sampleNode('n1', { tainted: true, zone: options.zone ?? '' });
    const cluster = sampleCluster();
    const patches: unknown[] = [];
    const events: string[] = [];
    const calls: unknown[] = [];
    const taints = [
      { key: 'gpu', effect: 'NoSchedule' },
      { key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' },
      { key: 'startup-taint.cluster-autoscaler.kubernetes.io/hearth-agent-not-ready', effect: 'NoSchedule' },
    ];
    const clock = { now: created + minute };
    const source = <P>(value: P) => ({ get: () => value }) as never;
    const status = { connected: true, nodes: new Map([['n1', nodeStatus('n1', { ready: options.ready ?? true })]]) };
    const agents = {
      get: () => ({
        status,
        call: async (...args: unknown[]) => {
          calls.push(args.slice(0, 2));
          return (await options.call?.()) ?? {};
        },
      }),
    } as unknown as Agents;
    const reconciler = new NodeReconciler({
      api: {
        get: async () =>
          ({ metadata: { name: 'n1', uid: 'u', resourceVersion: '5' }, spec: { taints } }) as Node as never,
        patch: async (_type, _name, _namespace, patch) => {
          patches.push(patch);
          return {} as never;
        },
      },
      agents,
      clusters: source<StorageCluster>(cluster),
      kept: { on: () => [], leaves: () => false },
      placeOf: () => ({ cluster: 'models', group: 'all' }),
      events: { eventFor: (type, _object, kind, reason) => void events.push(`${type.kind} ${kind} ${reason}`) },
      now: () => clock.now,
    });
    const reconcile = reconcileKey(reconciler, () => node);
    return { reconciler, reconcile, patches, events, calls, clock, node };
  }

  it('removes our taint and no other, if the node is still what was read', async () => {
    const { reconcile, patches, events } = setUp({});
    assert.deepEqual(await reconcile('n1', signal), {});
    assert.deepEqual(patches, [
      { metadata: { uid: 'u', resourceVersion: '5' }, spec: { taints: [{ key: 'gpu', effect: 'NoSchedule' }] } },
    ]);
    assert.deepEqual(events, ['Node Normal AgentReady']);
  });

  it('waits for the agent, and gives up after the timeout with events on both', async () => {
    const { reconcile, patches, events, clock } = setUp({ ready: false });
    assert.deepEqual(await reconcile('n1', signal), { requeueAfterMs: 9 * minute });
    assert.deepEqual(patches, []);
    clock.now = created + 10 * minute;
    await reconcile('n1', signal);
    assert.equal(patches.length, 1);
    assert.deepEqual(events, ['Node Warning AgentLate', 'StorageCluster Warning AgentLate']);
  });

  it('gives a taint that was put back a time of its own', async () => {
    const { reconciler, reconcile, patches, clock, node } = setUp({ ready: false });
    clock.now = created + 60 * minute;
    reconciler.changed('n1', { ...node, tainted: false }, node);
    assert.deepEqual(await reconcile('n1', signal), { requeueAfterMs: 10 * minute });
    assert.deepEqual(patches, []);
  });

  it('sends the agent its zone, and does not mind one that is too old', async () => {
    const told = setUp({ zone: 'east' });
    await told.reconcile('n1', signal);
    assert.deepEqual(told.calls, [['configureNode', { zone: 'east', rack: '' }]]);
    const old = setUp({ zone: 'east', call: () => Promise.reject(new HearthError('Unsupported', 'no')) });
    await old.reconcile('n1', signal);
    const away = setUp({ zone: 'east', call: () => Promise.reject(new HearthError('Unavailable', 'away')) });
    await assert.rejects(away.reconcile('n1', signal), /away/);
  });
});
