import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ChangeListener } from '@hearth/common/kubernetes';
import { TestClock } from '@hearth/common/kubernetes/testing';
import { gate } from '@hearth/common/resources';
import type { ClusterStatus, StatusListener } from '../agents/index.ts';
import { clusterStatus } from '../agents/testing/cluster_status.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import type { Source } from '../kubernetes/index.ts';
import type { GroupPlan, PlanInput, RunningPod } from '../planner/index.ts';
import type { GatedMember } from './groups.ts';
import { PlanningQueue, type Wanted } from './planning_queue.ts';
import { podGroups } from './pod_group.ts';
import type { PodView } from './pod_view.ts';
import { podOf } from './testing/objects.ts';

class Memory<P> implements Source<P> {
  readonly #objects = new Map<string, P>();
  #listener: ChangeListener<P> = () => undefined;
  get = (key: string) => this.#objects.get(key);
  all = () => [...this.#objects.values()];
  keys = () => [...this.#objects.keys()];
  synced = async () => undefined;
  onChange = (listener: ChangeListener<P>) => {
    this.#listener = listener;
    return () => {
      this.#listener = () => undefined;
    };
  };
  put(key: string, value: P): void {
    const before = this.#objects.get(key);
    this.#objects.set(key, value);
    this.#listener(key, before, value);
  }
}

const status: ClusterStatus = clusterStatus(GetStatusResponse.fromPartial({ nodes: [nodeStatus('n1')] }), 0);
const bare = (name: string) => ({
  planned: { name, labels: {}, taints: [], unschedulable: false, allocatable: {} },
});
const running = (node: string): RunningPod => ({
  namespace: 'team',
  labels: {},
  node,
  requests: {},
  hostPorts: [],
  deleting: false,
});

function wanted(key: string, pods: string[], cluster = 'main'): Wanted {
  const members = pods.map((name): GatedMember => {
    const gated = podOf(name, [], { metadata: { name, namespace: 'team' } });
    return { namespace: 'team', name, uid: name, createdAt: 0, preload: 'p', node: '', deleting: false, gated };
  });
  const datasets = ['team/a'];
  const parts = podGroups({ key, pods: members, gate: gate.parse({}), datasets, foreign: new Set() });
  return { cluster, parts, datasets: new Map([['team/a', 100]]) };
}

describe('planning queue', () => {
  let clock: TestClock;
  let inputs: PlanInput[];
  let changed: string[];
  let pods: Memory<PodView>;
  let nodes: Memory<ReturnType<typeof bare>>;
  let statuses: Map<string, ClusterStatus | undefined>;
  let tell: StatusListener;
  let preload: object | undefined;
  let planMs: number;
  let missing: number;
  let planning: PlanningQueue;
  let stop: () => void;

  beforeEach(() => {
    clock = new TestClock();
    [inputs, changed, preload, planMs, missing] = [[], [], undefined, 0, 40];
    [pods, nodes] = [new Memory(), new Memory()];
    statuses = new Map([['main', status]]);
    nodes.put('n1', bare('n1'));
    /** Every pod onto n1. */
    const plan = (input: PlanInput): Map<string, GroupPlan> => {
      inputs.push(input);
      clock.stall(planMs);
      if (input.groups.some(({ pods: [pod] }) => pod === 'bad')) throw new TypeError('a defect');
      return new Map(
        input.groups.map((group) => [
          group.key,
          {
            kind: 'warm',
            nodes: [{ node: 'n1', missingBytes: { 'team/a': missing }, percent: 60 }],
            assignment: new Map(group.pods.map((pod) => [pod, 'n1'])),
            affinity: { kind: 'Preferred', hostnames: ['h1'] },
            message: 'n1 it is',
          },
        ]),
      );
    };
    planning = new PlanningQueue({
      plan,
      nodes,
      pods,
      agents: {
        get: (cluster) => ({ cluster, status: statuses.get(cluster) }) as never,
        onChange: (listener) => {
          tell = listener;
          return () => undefined;
        },
      },
      preloads: { get: () => preload as never },
      changed: (key) => changed.push(key),
      logger: silentLogger,
      clock,
    });
    stop = planning.start();
  });
  afterEach(() => stop());

  it('plans what comes together, together and soon', async () => {
    planning.want('team/p', wanted('team/p', ['a']));
    planning.want('team/q', wanted('team/q', ['b']));
    assert.equal(planning.planOf('team/p'), undefined);
    await clock.advance(50);
    assert.equal(inputs.length, 1);
    assert.deepEqual(changed, ['team/p', 'team/q']);
    const plan = planning.planOf('team/p');
    assert.ok(plan?.kind === 'warm');
    assert.deepEqual([...plan.bytes], [['n1', { missingBytes: 40, presentBytes: 60 }]]);
    assert.deepEqual(plan.affinity.get('a')?.hostnames, ['h1']);
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(5_000);
    assert.equal(inputs.length, 1, 'nothing has changed');
  });

  it('plans the others when one cannot be planned', async () => {
    planning.want('team/p', wanted('team/p', ['a']));
    planning.want('team/q', wanted('team/q', ['bad']));
    await clock.advance(50);
    assert.equal(planning.planOf('team/p')?.kind, 'warm');
    assert.equal(planning.planOf('team/q'), undefined);
  });

  it('lets a plan stand for its pods while others come, and keeps its nodes', async () => {
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(50);
    planning.want('team/p', wanted('team/p', ['a', 'b']));
    assert.deepEqual(planning.planOf('team/p')?.pods, new Set(['a']));
    await clock.advance(50);
    assert.deepEqual(inputs[1]?.groups[0]?.planned, ['n1']);
    assert.deepEqual(planning.planOf('team/p')?.pods, new Set(['a', 'b']));
    assert.deepEqual(changed, ['team/p', 'team/p']);
  });

  it('has no plan when something else is wanted for the same pods', async () => {
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(50);
    planning.want('team/p', { ...wanted('team/p', ['a']), datasets: new Map([['team/a', 200]]) });
    assert.equal(planning.planOf('team/p'), undefined);
    assert.ok(planning.lastPlan('team/p'));
  });

  it('takes over the plan of a former leader from its spec', async () => {
    preload = { spec: { placement: { gatedPods: { nodes: ['n7', 'n3'] } } }, status: { nodes: [{ name: 'n1' }] } };
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(50);
    assert.deepEqual(inputs[0]?.groups[0]?.planned, ['n7', 'n3']);
  });

  it('plans again when the world changes, not at once and only if a pod waits', async () => {
    nodes.put('n2', bare('n2'));
    await clock.advance(5_000);
    assert.equal(inputs.length, 0);
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(50);
    nodes.put('n3', bare('n3'));
    pods.put('team/x', { uses: new Map(), running: running('n2') });
    tell('main', undefined, status);
    await clock.advance(900);
    assert.equal(inputs.length, 1);
    await clock.advance(200);
    assert.equal(inputs.length, 2);
    assert.deepEqual(inputs[1]?.running, [running('n2')]);
    assert.deepEqual(changed, ['team/p'], 'the plan is the same');
  });

  it('leaves most of the time to others when planning takes long', async () => {
    planMs = 400;
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(30);
    planning.want('team/p', wanted('team/p', ['a', 'b']));
    await clock.advance(1_000);
    assert.equal(inputs.length, 1);
    await clock.advance(1_000);
    assert.equal(inputs.length, 2);
  });

  it('expects released pods where they go, until they run or are gone', async () => {
    planning.want('team/p', wanted('team/p', ['a', 'b']));
    await clock.advance(50);
    planning.released('team/p', 'team', ['a', 'b']);
    assert.equal(planning.planOf('team/p'), undefined);
    planning.want('team/q', wanted('team/q', ['c']));
    await clock.advance(50);
    assert.deepEqual(
      inputs[1]?.running.map(({ node }) => node),
      ['n1', 'n1'],
    );
    pods.put('team/a', { uses: new Map(), running: running('n1') });
    // It could not be released after all.
    planning.want('team/p', wanted('team/p', ['b']));
    await clock.advance(50);
    assert.deepEqual(inputs[2]?.running, [running('n1')]);
  });

  it('reports once of each node what was there when it was first planned', async () => {
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(50);
    missing = 0;
    planning.want('team/p', wanted('team/p', ['a', 'b']));
    await clock.advance(50);
    assert.deepEqual(planning.takeBytes('team/p'), { presentBytes: 60, missingBytes: 40 });
    assert.deepEqual(planning.takeBytes('team/p'), { presentBytes: 0, missingBytes: 0 });
  });

  it('waits for agents of which nothing was heard yet, but not for ever', async () => {
    statuses.set('main', undefined);
    planning.want('team/p', wanted('team/p', ['a']));
    await clock.advance(20_000);
    assert.equal(inputs.length, 0);
    await clock.advance(10_100);
    assert.equal(inputs.length, 1);
    assert.equal(inputs[0]?.nodes[0]?.agent, undefined);
  });

  it('plans each StorageCluster with its own agents, and with what the other one takes', async () => {
    statuses.set('other', clusterStatus(GetStatusResponse.fromPartial({ nodes: [] }), 0));
    planning.want('team/p', wanted('team/p', ['a']));
    planning.want('team/q', wanted('team/q', ['b'], 'other'));
    await clock.advance(50);
    assert.equal(inputs.length, 2);
    assert.deepEqual(
      inputs.map(({ nodes: [node] }) => node?.agent !== undefined),
      [true, false],
    );
    assert.deepEqual(
      inputs.map((input) => input.running.length),
      [0, 1],
    );
  });
});
