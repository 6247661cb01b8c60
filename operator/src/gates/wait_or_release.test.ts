import assert from 'node:assert/strict';
import { type Gate, gate } from '@hearth/common/resources';
import type { Plan } from './plan.ts';
import { type Situation, waitOrRelease } from './wait_or_release.ts';

const affinity = { kind: 'Required', hostnames: ['h-n1', 'h-n2'] } as const;
const place = { namespace: 'team', labels: {}, node: 'n1', requests: {}, hostPorts: [], deleting: false };
const warm: Extract<Plan, { kind: 'warm' }> = {
  kind: 'warm',
  pods: new Set(['web']),
  nodes: ['n1', 'n2'],
  affinity: new Map([['web', affinity]]),
  expected: new Map([['web', place]]),
  bytes: new Map(),
  message: 'N1 and n2 are nearest.',
};

function judge(fields: Partial<Omit<Situation, 'gate'>> & { gate?: Partial<Gate> } = {}) {
  const given: Situation = {
    overdue: false,
    plan: warm,
    readiness: undefined,
    unready: '',
    formerNodes: [],
    hostname: (node) => `h-${node}`,
    ...fields,
    gate: gate.parse(fields.gate ?? {}),
  };
  const found = waitOrRelease(given);
  return found.kind === 'wait' ? found : { ...found, affinity: found.affinity('web') };
}
const at = (...percents: [string, number, boolean?][]) =>
  new Map(percents.map(([node, percent, pinned = true]) => [node, { percent, memoryPercent: percent, pinned }]));

describe('a group with a plan', () => {
  it('is to wait until every node of the plan has enough, and keeps it', () => {
    assert.equal(judge().kind, 'wait');
    assert.equal(
      judge().message,
      'the agent on n1 has not begun, the agent on n2 has not begun; the gate waits for 100 % (N1 and n2 are nearest)',
    );
    assert.match(judge({ readiness: at(['n1', 100], ['n2', 40]) }).message, /^n2 has 40 %; the gate waits/);
    assert.match(judge({ readiness: at(['n1', 100], ['n2', 100, false]) }).message, /n2 has 100 % \(not pinned yet\)/);
    const released = judge({ readiness: at(['n1', 100], ['n2', 100]) });
    assert.deepEqual([released.kind, 'reason' in released && released.reason], ['release', 'Warm']);
    assert.ok('affinity' in released);
    assert.deepEqual(released.affinity, affinity);
    assert.equal(judge({ gate: { minPercent: 40 }, readiness: at(['n1', 41], ['n2', 40]) }).kind, 'release');
  });

  describe('that waits for memory', () => {
    const gated = { readyWhen: 'Memory' } as const;
    const held = (memoryPercent: number, percent: number, pinned = true) => ({ memoryPercent, percent, pinned });

    it('is to go when the bytes are in memory, and says how the pods read until they are stored', () => {
      const readiness = new Map([
        ['n1', held(100, 100)],
        ['n2', held(100, 30)],
      ]);
      const released = judge({ readiness, gate: gated });
      assert.deepEqual(released, {
        kind: 'release',
        reason: 'Warm',
        message:
          'starts where its bytes are in memory: n1, n2; the pod reads through FUSE until the agents have stored them on n2',
        affinity,
      });
      assert.match(
        judge({ readiness }).message,
        /^n2 has 30 %; the gate waits for 100 %/,
        'others wait until they are stored',
      );
      assert.equal(
        judge({ readiness: at(['n1', 100], ['n2', 100]), gate: gated }).message,
        'starts where its bytes are: n1, n2',
      );
    });

    it('is to wait while bytes are missing or not pinned, and says which', () => {
      const readiness = new Map([
        ['n1', held(60, 10)],
        ['n2', held(100, 10, false)],
      ]);
      assert.match(
        judge({ readiness, gate: gated }).message,
        /^n1 has 60 % in memory, n2 has 100 % in memory \(not pinned yet\); the gate waits for 100 %/,
      );
      const enough = new Map([
        ['n1', held(60, 10)],
        ['n2', held(70, 10)],
      ]);
      assert.equal(judge({ readiness: enough, gate: { ...gated, minPercent: 60 } }).kind, 'release');
    });

    it('is to go where most is in memory when the time is over', () => {
      const readiness = new Map([
        ['n1', held(20, 20)],
        ['n2', held(70, 0)],
      ]);
      const found = judge({ overdue: true, readiness, gate: gated });
      assert.ok('affinity' in found);
      assert.deepEqual(found.affinity, { kind: 'Preferred', hostnames: ['h-n2'] });
      assert.match(found.message, /n1 has 20 % in memory, n2 has 70 % in memory/);
    });
  });

  it('is to wait for a plan and for Datasets', () => {
    assert.match(judge({ plan: undefined }).message, /choosing nodes/);
    assert.equal(judge({ unready: 'Dataset team/a is not ready' }).message, 'Dataset team/a is not ready');
  });

  it('is to go at once when waiting mends nothing, unchanged', () => {
    const found = judge({
      plan: { kind: 'release', reason: 'NoFeasibleNode', message: 'No node has a GPU.', pods: new Set() },
    });
    assert.deepEqual(found, {
      kind: 'release',
      reason: 'NoFeasibleNode',
      message: 'starts without waiting: no node has a GPU',
      affinity: undefined,
    });
  });

  it('is to go at once when every node is full, with a wish for the nodes that are warmed meanwhile', () => {
    const full = { ...warm, expected: new Map(), message: 'No node takes a pod now.' };
    const found = judge({ plan: full, readiness: at(['n1', 100], ['n2', 40]) });
    assert.deepEqual(found, {
      kind: 'release',
      reason: 'NoFreeNode',
      message: 'starts without waiting: no node takes a pod now',
      affinity: { kind: 'Preferred', hostnames: ['h-n1', 'h-n2'] },
    });
    const there = judge({ plan: full, readiness: at(['n1', 100], ['n2', 100]) });
    assert.ok('reason' in there && there.reason === 'Warm');
  });

  it('is to go where the bytes are when the gate prefers, without waiting for Datasets', () => {
    const found = judge({ gate: { mode: 'Prefer' } });
    assert.ok('reason' in found && found.reason === 'Prefer');
    assert.deepEqual(found.affinity, affinity);
    const unready = judge({ gate: { mode: 'Prefer' }, unready: 'Dataset team/a is not ready' });
    assert.ok('reason' in unready && unready.reason === 'NoPlan');
  });

  it('is to go when the time is over, with a wish for the nodes that have most', () => {
    const readiness = at(['n1', 20], ['n2', 70]);
    const found = judge({ overdue: true, readiness, gate: { affinity: 'Required' } });
    assert.ok('reason' in found && found.reason === 'TimedOut');
    assert.match(found.message, /^starts cold, as the time of its gate \(10m\) is over: n1 has 20 %, n2 has 70 %/);
    assert.deepEqual(found.affinity, { kind: 'Preferred', hostnames: ['h-n2'] });
    const cold = judge({ overdue: true, readiness: at(['n1', 0], ['n2', 0]) });
    assert.ok('affinity' in cold && cold.affinity === undefined);
  });

  it('is to go when the time is over though nothing was planned or looked at', () => {
    const bare = judge({ overdue: true, plan: undefined });
    assert.match(bare.message, /the operator had no plan for it/);
    const formerNodes = [
      { name: 'n1', percent: 30 },
      { name: 'n3', percent: 10 },
    ];
    const found = judge({ overdue: true, plan: undefined, formerNodes });
    assert.ok('affinity' in found);
    assert.deepEqual(found.affinity, { kind: 'Preferred', hostnames: ['h-n1'] });
    assert.match(judge({ overdue: true, plan: undefined, unready: 'Dataset x is not ready' }).message, /: Dataset x/);
  });
});
