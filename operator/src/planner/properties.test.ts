import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { PlanInput, PlannedNode, PodGroup } from './input.ts';
import type { WarmPlan } from './plan.ts';
import { plan } from './planner.ts';
import { refusedEver, refusedNow, type World } from './testing/naive_filter.ts';
import { randomCluster } from './testing/random_cluster.ts';
import { bytesMissing, canHold, named, open, podOn, replay, type Turn } from './testing/replay.ts';

/** Every run tries the same clusters, unless it is given another seed. */
const seed = Number(process.env.HEARTH_SEED || 20_261_121);
const clusters = 1000;

/** Checks a property of each group's turn in many clusters. */
function always(check: (turn: Turn, input: PlanInput) => void): void {
  const property = fc.property(randomCluster(), (input) => {
    for (const turn of replay(input, plan(input))) check(turn, input);
  });
  fc.assert(property, { seed, numRuns: clusters });
}

/** Of warm plans alone. */
function ofWarm(check: (plan: WarmPlan, turn: Turn, input: PlanInput) => void): void {
  always((turn, input) => {
    if (turn.plan.kind === 'warm') check(turn.plan, turn, input);
  });
}

/** The world after the assigned pods have come. */
function after({ world, group }: Turn, { assignment }: WarmPlan): World {
  return { ...world, placed: [...world.placed, ...[...assignment.values()].map((node) => podOn(group, node))] };
}

const hostname = ({ labels }: PlannedNode) => labels['kubernetes.io/hostname'] as string;

describe('planner, in 1000 random clusters against a filter written in another way', () => {
  it('tries clusters of all kinds', () => {
    const seen = new Map<string, number>();
    const see = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1);
    always(({ plan: found, group }) => {
      see(found.kind === 'release' ? found.reason : found.assignment.size === 0 ? 'waits' : 'warm');
      if (found.kind !== 'warm') return;
      if (found.assignment.size > 0 && found.assignment.size < group.pods.length) see('in part');
      if (new Set(found.assignment.values()).size > 1) see('several nodes');
      see(`affinity ${found.affinity.kind}${found.affinity.reason === undefined ? '' : ' with a reason'}`);
    });
    const kinds = ['warm', 'waits', 'in part', 'several nodes', 'NoFeasibleNode', 'NoAgent', 'NoRoom'];
    const affinities = ['affinity Preferred', 'affinity Required', 'affinity Preferred with a reason'];
    for (const kind of [...kinds, ...affinities]) assert.ok((seen.get(kind) ?? 0) >= 20, `${kind}: ${seen.get(kind)}`);
  });

  it('sends every pod where it can go after those before it', () => {
    ofWarm(({ assignment }, { group, world: { nodes, placed } }, input) => {
      assert.deepEqual([...assignment.keys()], group.pods.slice(0, assignment.size));
      let there = placed;
      for (const [pod, node] of assignment) {
        assert.equal(refusedNow(group, named(input, node), { nodes, placed: there }), undefined, `${pod} on ${node}`);
        there = [...there, podOn(group, node)];
      }
    });
  });

  it('promises no bytes twice and none that there is no room for', () => {
    ofWarm(({ nodes }, turn, input) => {
      for (const { node } of nodes) assert.ok(canHold(input, turn, named(input, node)), node);
    });
  });

  it('reports what is missing', () => {
    ofWarm(({ nodes }, { group }, input) => {
      for (const { node, missingBytes } of nodes) {
        const missing = bytesMissing(input, group, named(input, node));
        assert.equal(
          Object.values(missingBytes).reduce((a, b) => a + b, 0),
          missing,
        );
      }
    });
  });

  it('leaves no pod behind that could go to a node that can hold the bytes', () => {
    always((turn, input) => {
      if (turn.plan.kind === 'release') assert.deepEqual(open(input, turn), []);
      else if (turn.plan.assignment.size < turn.group.pods.length) {
        const left = open(input, turn, after(turn, turn.plan));
        assert.deepEqual(left, []);
      }
    });
  });

  it('steers no pod to where it cannot go now while it could go to a node with all bytes', () => {
    always((turn, input) => {
      const warmNodes = open(input, turn).filter((node) => bytesMissing(input, turn.group, node) === 0);
      if (warmNodes.length === 0) return;
      assert.equal(turn.plan.kind, 'warm');
      const { nodes, assignment, affinity } = turn.plan as WarmPlan;
      const used = new Set(assignment.values());
      assert.ok(used.size > 0);
      for (const { node } of nodes) {
        if (!turn.group.planned.includes(node)) assert.ok(used.has(node), `${node} is planned for no pod`);
      }
      assert.ok([...used].some((node) => affinity.hostnames.includes(hostname(named(input, node)))));
    });
  });

  it('goes to a node with all bytes first', () => {
    ofWarm(({ assignment }, turn, input) => {
      const [first] = assignment.values();
      if (first === undefined || turn.group.planned.length > 0) return;
      const missing = open(input, turn).map((node) => bytesMissing(input, turn.group, node));
      const fetched = (node: PlannedNode) => bytesMissing(input, turn.group, node);
      if (missing.includes(0)) assert.equal(fetched(named(input, first)), 0);
    });
  });

  it('makes a copy only where all nodes that need none are full', () => {
    ofWarm(({ nodes, assignment }, turn, input) => {
      const { group, coming } = turn;
      const needsNone = (node: PlannedNode) =>
        group.datasets.every((key) => coming.has(`${node.name} ${key}`)) || bytesMissing(input, group, node) === 0;
      const copies = nodes.filter(({ node }) => !group.planned.includes(node) && !needsNone(named(input, node)));
      if (copies.length === 0 || assignment.size === 0) return;
      // Topology spread may ask for other nodes, though some have room.
      if (group.spread.some(({ hard }) => hard)) return;
      assert.deepEqual(open(input, turn, after(turn, turn.plan as WarmPlan)).filter(needsNone), []);
    });
  });

  it('waits only where a pod could go when others end, and only when none could go anywhere now', () => {
    ofWarm(({ nodes, assignment }, { group, world }, input) => {
      if (assignment.size > 0) return;
      for (const { node } of nodes) {
        const now = group.planned.includes(node) && refusedNow(group, named(input, node), world) === undefined;
        assert.ok(now || refusedEver(group, named(input, node), world) === undefined, node);
      }
      for (const node of input.nodes) assert.notEqual(refusedNow(group, node, world), undefined, node.name);
    });
  });

  it('says that no node is feasible when and only when none could ever be', () => {
    always(({ plan: found, group, world }, input) => {
      const none = input.nodes.every((node) => refusedEver(group, node, world) !== undefined);
      assert.equal(found.kind === 'release' && found.reason === 'NoFeasibleNode', none);
    });
  });

  it('keeps every node of an older plan that pods can still go to', () => {
    ofWarm(({ nodes }, turn, input) => {
      const kept = nodes.map(({ node }) => node);
      for (const { name } of open(input, turn)) if (turn.group.planned.includes(name)) assert.ok(kept.includes(name));
    });
  });

  it('has the same plan again when it is given it', () => {
    const property = fc.property(randomCluster(), (given) => {
      const [group] = given.groups as [PodGroup];
      const input = { ...given, groups: [group] };
      const planned = nodesOf(plan(input), group);
      assert.deepEqual(nodesOf(plan({ ...input, groups: [{ ...group, planned }] }), group), planned);
    });
    fc.assert(property, { seed, numRuns: clusters });
  });

  it('requires only what all assigned pods can fulfil, whatever order the scheduler chooses', () => {
    ofWarm((found, turn, input) => {
      if (found.affinity.kind !== 'Required') return;
      assert.equal(turn.group.affinity, 'Required');
      const { hostnames } = found.affinity;
      const narrowed = narrow(turn.group, hostnames);
      for (const order of [input.nodes, input.nodes.toReversed()]) {
        let { placed } = turn.world;
        for (const _ of found.assignment) {
          const free = order.find((node) => refusedNow(narrowed, node, { nodes: input.nodes, placed }) === undefined);
          assert.ok(free, 'a pod is left pending');
          placed = [...placed, podOn(turn.group, free.name)];
        }
        if (found.assignment.size === turn.group.pods.length) continue;
        const world = { nodes: input.nodes, placed };
        assert.deepEqual(
          input.nodes.filter((node) => refusedNow(turn.group, node, world) === undefined),
          [],
        );
      }
    });
  });

  it('requires every node that holds enough and could take a pod, and those of the plan', () => {
    ofWarm(({ affinity, nodes }, { group, world }, input) => {
      if (affinity.kind !== 'Required') return;
      const total = group.datasets.reduce((sum, key) => sum + (input.datasets.get(key)?.bytes ?? 0), 0);
      const expected = input.nodes.filter((node) => {
        if (nodes.some((one) => one.node === node.name)) return true;
        const host = hostname(node);
        const alone = input.nodes.filter((one) => hostname(one) === host).length === 1;
        const enough = (total - bytesMissing(input, group, node)) * 100 >= group.minPercent * total;
        const possible = refusedEver(group, node, world) === undefined;
        return node.agent !== undefined && host !== undefined && alone && enough && possible;
      });
      assert.deepEqual([...affinity.hostnames].sort(), expected.map(hostname).sort());
    });
  });

  it('has one plan for a cluster, in whatever order its nodes and pods are listed', () => {
    const shuffled = randomCluster().chain((input) =>
      fc.record({
        input: fc.constant(input),
        nodes: fc.shuffledSubarray([...input.nodes], { minLength: input.nodes.length }),
        running: fc.shuffledSubarray([...input.running], { minLength: input.running.length }),
      }),
    );
    const property = fc.property(shuffled, ({ input, nodes, running }) => {
      const expected = plan(input);
      assert.deepEqual([...plan(structuredClone(input))], [...expected]);
      assert.deepEqual([...plan({ ...input, nodes, running })], [...expected]);
    });
    fc.assert(property, { seed, numRuns: clusters });
  });

  it('changes nothing for a group when one that comes later is added', () => {
    always(({ group, plan: found }, input) => {
      const until = input.groups.filter(({ planned }) => planned.length > 0);
      const order = [...until, ...input.groups.filter(({ planned }) => planned.length === 0)];
      const groups = order.slice(0, order.indexOf(group) + 1);
      assert.deepEqual(plan({ ...input, groups }).get(group.key), found);
    });
  });
});

function nodesOf(plans: ReturnType<typeof plan>, { key }: PodGroup): string[] {
  const found = plans.get(key);
  return found?.kind === 'warm' ? found.nodes.map(({ node }) => node) : [];
}

/** The group as its pods are when they are released. */
function narrow(group: PodGroup, hostnames: readonly string[]): PodGroup {
  const here = { key: 'kubernetes.io/hostname', operator: 'In', values: hostnames };
  const terms = group.requiredTerms ?? [{ matchExpressions: [], matchFields: [] }];
  const empty = (term: (typeof terms)[number]) => term.matchExpressions.length + term.matchFields.length === 0;
  return {
    ...group,
    requiredTerms: terms.map((term) =>
      group.requiredTerms !== undefined && empty(term)
        ? term
        : { ...term, matchExpressions: [...term.matchExpressions, here] },
    ),
  };
}
