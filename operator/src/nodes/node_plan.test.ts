import assert from 'node:assert/strict';
import { Dataset } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from '../agents/index.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import { sampleCluster, sampleNode } from '../storage_cluster/testing/samples.ts';
import { type ObservedNode, planNode } from './node_plan.ts';

const minute = 60_000;
const created = Date.parse('2026-01-01T00:00:00Z');
const model = Dataset.fromPartial({ name: 'team.a', manifest: 'm', state: 'Ready', bytes: 100n, files: 2n });

/** One minute after the node came; its agent is ready unless `agent` says otherwise. */
function seen(fields: Partial<ObservedNode> = {}, agent: Parameters<typeof nodeStatus>[1] = {}): ObservedNode {
  const nodes = new Map([['n1', nodeStatus('n1', agent)]]);
  const status: ClusterStatus = {
    receivedAt: 0,
    connected: true,
    nodes,
    datasets: new Map([[model.name, model]]),
    jobs: new Map(),
    apiDifferences: [],
  };
  const before = { taintedAgainAt: undefined, copies: undefined, reported: {} };
  return { now: created + minute, cluster: sampleCluster(), status, ...before, ...fields };
}

const tainted = sampleNode('n1', { tainted: true });
const joining = sampleCluster({ joinPolicies: [{ name: 'p', datasets: [{ namespace: 'team', name: 'a' }] }] });
const kindsOf = (node: typeof tainted, observed: ObservedNode) =>
  planNode(node, observed).actions.map(({ kind }) => kind);

describe('plan for a node', () => {
  it('is nothing where it belongs to no StorageCluster, or is as it should be', () => {
    assert.deepEqual(planNode(tainted, seen({ cluster: undefined })), { actions: [], requeueAfterMs: undefined });
    assert.deepEqual(planNode(sampleNode('n1'), seen()), { actions: [], requeueAfterMs: undefined });
  });

  it('takes the taint of one that is ready, and otherwise waits until its time is over', () => {
    assert.deepEqual(kindsOf(tainted, seen()), ['removeTaint']);
    const waiting = planNode(tainted, seen({}, { ready: false }));
    assert.deepEqual(waiting, { actions: [], requeueAfterMs: 9 * minute });
    const silent = planNode(tainted, seen({ status: undefined, now: created + 10 * minute }));
    assert.ok(silent.actions[0]?.kind === 'removeTaint' && silent.actions[0].late);
    const again = planNode(tainted, seen({ status: undefined, taintedAgainAt: created + minute }));
    assert.equal(again.requeueAfterMs, 10 * minute);
  });

  it('reports its place to its agent only while that is ready', () => {
    const east = sampleNode('n1', { zone: 'east' });
    assert.deepEqual(kindsOf(east, seen()), ['reportPlace']);
    assert.deepEqual(kindsOf(east, seen({}, { ready: false })), []);
    assert.deepEqual(kindsOf(east, seen({}, { zone: 'east' })), []);
  });

  it('asks for what a node that joins must hold, and reports that once', () => {
    const first = planNode(tainted, seen({ cluster: joining }));
    assert.deepEqual(
      first.actions.map(({ kind }) => kind),
      ['requestCopy', 'event'],
    );
    assert.equal(first.requeueAfterMs, 15_000);
    const event = first.actions[1];
    assert.ok(event?.kind === 'event');
    assert.deepEqual(kindsOf(tainted, seen({ cluster: joining, reported: { join: event.message } })), ['requestCopy']);
  });

  it('moves last copies off one that is to go, and reports that they have moved, if it reported that they move', () => {
    const leaving = sampleNode('n1', { leaving: true });
    const copies = [
      { dataset: model, target: 'n2', trouble: '' },
      { dataset: { ...model, name: 'team.b' }, target: undefined, trouble: 'no room' },
    ];
    const { actions, requeueAfterMs } = planNode(leaving, seen({ copies }));
    assert.equal(requeueAfterMs, 15_000);
    const [request, event] = actions;
    assert.ok(request?.kind === 'requestCopy' && event?.kind === 'event');
    assert.deepEqual([request.copy.node, request.copy.purpose], ['n2', 'keep']);
    assert.deepEqual([event.type, event.reason], ['Warning', 'LastCopiesMove']);
    assert.match(event.message, /copied: team\.a to n2\. In the way: team\.b: no room$/);
    assert.deepEqual(kindsOf(leaving, seen({ copies: [] })), []);
    assert.deepEqual(kindsOf(leaving, seen({ copies: [], reported: { leave: event.message } })), ['event']);
  });
});
