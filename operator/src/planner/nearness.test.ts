import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { PlanInput, PlannedNode, PodGroup } from './input.ts';
import { plan } from './planner.ts';
import { group, input, node, pods, running } from './testing/inputs.ts';
import { names, only, places, warm } from './testing/plans.ts';
import { randomCluster } from './testing/random_cluster.ts';
import { bytesMissing, named, open, replay, type Turn } from './testing/replay.ts';

const at = (zone: string, rack?: string) => ({
  'topology.kubernetes.io/zone': zone,
  ...(rack === undefined ? {} : { 'hearth.storage/rack': rack }),
});
const full = { resident: { model: 100 } };
/** Takes all of the GPUs of `node`. */
const busy = (name: string) => running(name, { requests: { 'nvidia.com/gpu': 8 } });

/** Where the bytes are brought when `holder`, which has them all, takes no pod. */
function chosen(holder: PlannedNode, others: readonly PlannedNode[]): string | undefined {
  const found = warm(only(input([holder, ...others], [group('g')], { running: [busy(holder.name)] })));
  assert.deepEqual(names(found), places(found));
  return names(found)[0];
}

describe('nearness to agents that have the bytes', () => {
  it('is the same rack before the same zone before elsewhere, where all else is equal', () => {
    const holder = node('holder', { ...full, labels: at('east', '2') });
    const far = node('a', { labels: at('west', '2') });
    const zone = node('b', { labels: at('east', '1') });
    const rack = node('c', { labels: at('east', '2') });
    assert.equal(chosen(holder, [far, zone, rack]), 'c');
    assert.equal(chosen(holder, [far, zone]), 'b');
    assert.equal(chosen(holder, [far]), 'a');
  });

  it('goes before more room for the bytes', () => {
    const holder = node('holder', { ...full, labels: at('east') });
    assert.equal(
      chosen(holder, [node('a', { available: 2000, labels: at('west') }), node('b', { labels: at('east') })]),
      'b',
    );
  });

  it('comes after bytes that are there, preferences and room for more pods', () => {
    const holder = node('holder', { ...full, labels: at('east') });
    const near = node('near', { labels: at('east') });
    assert.equal(chosen(holder, [near, node('some', { resident: { model: 10 }, labels: at('west') })]), 'some');
    const term = { matchExpressions: [{ key: 'fast', operator: 'Exists', values: [] }], matchFields: [] };
    const wishing = group('g', { preferredTerms: [{ weight: 1, term }] });
    const preferredHostnames = node('preferredHostnames', { labels: { ...at('west'), fast: 'yes' } });
    const given = input([holder, near, preferredHostnames], [wishing], { running: [busy('holder')] });
    assert.deepEqual(names(warm(only(given))), ['preferredHostnames']);
    const narrow = node('narrow', { labels: at('east'), allocatable: { pods: 9, 'nvidia.com/gpu': 1 } });
    const wide = node('wide', { labels: at('west') });
    const two = input([holder, narrow, wide], [group('g', { pods: pods('g', 2) })], { running: [busy('holder')] });
    assert.deepEqual(names(warm(only(two))), ['wide']);
  });

  it('is taken from the fullest agent: a little in the rack counts less than all in the zone', () => {
    const holder = node('holder', { ...full, labels: at('east', '1') });
    const little = node('little', { resident: { model: 5 }, labels: at('west', '1') });
    const nodes = [holder, little, node('a', { labels: at('west', '1') }), node('b', { labels: at('east', '2') })];
    const given = input(nodes, [group('g')], { running: [busy('holder'), busy('little')] });
    assert.deepEqual(names(warm(only(given))), ['b']);
  });

  it('knows racks of one name in several zones apart', () => {
    const holder = node('holder', { ...full, labels: at('east', '1') });
    const half = node('half', { resident: { model: 100 }, labels: at('west', '9') });
    const nodes = [holder, half, node('a', { labels: at('west', '1') }), node('b', { labels: at('east', '1') })];
    const given = input(nodes, [group('g')], { running: [busy('holder'), busy('half')] });
    assert.deepEqual(names(warm(only(given))), ['b']);
  });

  it('needs no zones to know racks, nor racks to know zones', () => {
    const rack = { 'topology.kubernetes.io/rack': '3' };
    assert.equal(chosen(node('holder', { ...full, labels: rack }), [node('a'), node('b', { labels: rack })]), 'b');
    const nodes = [node('a', { labels: at('west') }), node('b', { labels: at('east') })];
    assert.equal(chosen(node('holder', { ...full, labels: at('east') }), nodes), 'b');
  });

  it('counts bytes that another group brings', () => {
    const small = { pods: 9, 'nvidia.com/gpu': 1 };
    const first = node('first', { labels: { ...at('east'), only: 'first' }, allocatable: small });
    const nodes = [first, node('a', { labels: at('west') }), node('b', { labels: at('east') })];
    const plans = plan(input(nodes, [group('one', { nodeSelector: { only: 'first' } }), group('two')]));
    assert.deepEqual(names(warm(plans.get('one'))), ['first']);
    assert.deepEqual(names(warm(plans.get('two'))), ['b']);
  });

  it('chooses the place of a plan for pods that wait for others to end', () => {
    const nodes = [
      node('holder', { ...full, labels: { ...at('east'), not: 'this' } }),
      node('a', { labels: at('west') }),
      node('b', { labels: at('east') }),
    ];
    const expression = { key: 'not', operator: 'DoesNotExist', values: [] };
    const elsewhere = group('g', { requiredTerms: [{ matchExpressions: [expression], matchFields: [] }] });
    const found = warm(only(input(nodes, [elsewhere], { running: [busy('a'), busy('b')] })));
    assert.deepEqual([names(found), places(found)], [['b'], []]);
  });

  it('decides among nodes that are equal otherwise, in 3000 random clusters', () => {
    const place = fc.record({
      zone: fc.constantFrom(undefined, 'east', 'west'),
      rack: fc.constantFrom(undefined, '1', '2'),
    });
    // With nothing else that could decide; room for one pod is the same everywhere, that for more is not.
    const plain = (one: PodGroup): PodGroup => ({
      ...one,
      pods: one.pods.slice(0, 1),
      spread: [],
      preferredTerms: [],
      planned: [],
    });
    const clusters = fc
      .tuple(randomCluster(), fc.array(place, { minLength: 8, maxLength: 8 }))
      .map(([given, where]): PlanInput => {
        const nodes = given.nodes.map((one, index) => ({
          ...one,
          labels: { ...one.labels, ...labelsOf(where[index]) },
          taints: one.taints.filter(({ effect }) => effect !== 'PreferNoSchedule'),
        }));
        return { ...given, nodes, groups: given.groups.map(plain) };
      });
    let decided = 0;
    const property = fc.property(clusters, (given) => {
      for (const turn of replay(given, plan(given))) {
        const [first] = turn.plan.kind === 'warm' ? turn.plan.assignment.values() : [];
        if (first === undefined) continue;
        const best = named(given, first);
        const lacks = lacking(given, turn, best);
        if (lacks === 0) continue;
        const missing = bytesMissing(given, turn.group, best);
        const equals = open(given, turn).filter(
          (other) => lacking(given, turn, other) === lacks && bytesMissing(given, turn.group, other) === missing,
        );
        const nearest = nearness(given, turn, best);
        const all = equals.map((other) => nearness(given, turn, other));
        for (const other of all) assert.ok(isAtLeast(nearest, other), `${first}: ${nearest}, ${other}`);
        if (all.some((other) => other.join() !== nearest.join())) decided++;
      }
    });
    fc.assert(property, { seed: Number(process.env.HEARTH_SEED || 20_261_121), numRuns: 3000 });
    assert.ok(decided >= 20, `it decided ${decided} times`);
  });
});

function labelsOf(place: { zone: string | undefined; rack: string | undefined } | undefined): Record<string, string> {
  return {
    ...(place?.zone === undefined ? {} : { 'topology.kubernetes.io/zone': place.zone }),
    ...(place?.rack === undefined ? {} : { 'topology.kubernetes.io/rack': place.rack }),
  };
}

/** Bytes of the group that the node neither has nor is brought for others. */
function lacking(given: PlanInput, { group: { datasets }, coming }: Turn, { name, agent }: PlannedNode): number {
  return datasets.reduce((sum, key) => {
    if (coming.has(`${name} ${key}`)) return sum;
    return sum + (given.datasets.get(key)?.bytes ?? 0) - (agent?.residentBytes[key] ?? 0);
  }, 0);
}

/** The share of the fullest node in its zone, and in its rack, in whole percents. */
function nearness(given: PlanInput, turn: Turn, { labels }: PlannedNode): number[] {
  const total = turn.group.datasets.reduce((sum, key) => sum + (given.datasets.get(key)?.bytes ?? 0), 0);
  const most = (...keys: string[]) => {
    if (labels[keys[0] as string] === undefined) return 0;
    const there = given.nodes.filter((other) => keys.every((key) => other.labels[key] === labels[key]));
    return Math.max(...there.map((other) => Math.floor((100 * (total - lacking(given, turn, other))) / total)));
  };
  const [zone, rack] = ['topology.kubernetes.io/zone', 'topology.kubernetes.io/rack'];
  return [most(zone as string), most(rack as string, zone as string)];
}

function isAtLeast(
  [zone = 0, rack = 0]: readonly number[],
  [otherZone = 0, otherRack = 0]: readonly number[],
): boolean {
  return zone > otherZone || (zone === otherZone && rack >= otherRack);
}
