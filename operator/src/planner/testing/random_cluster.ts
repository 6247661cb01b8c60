import fc from 'fast-check';
import type {
  Amounts,
  Expression,
  HostPort,
  LabelSelector,
  PlanInput,
  PlannedNode,
  PodGroup,
  RunningPod,
  Taint,
  Toleration,
  TopologySpread,
} from '../input.ts';
import { gib } from './inputs.ts';

/**
 * Clusters with few different values, so that nodes, pods and datasets get in one another's way. All of it is what an API
 * server takes. `plain`: without what a test with a real scheduler cannot have, or would not see the effect of, and with
 * more room, as there are fewer of them.
 */
export function randomCluster(options: { plain?: boolean } = {}): fc.Arbitrary<PlanInput> {
  const plain = options.plain === true;
  return fc
    .record({ sizes: fc.array(fc.constantFrom(0, 10, 100, 250), { minLength: 1, maxLength: 3 }) })
    .chain(({ sizes }) => {
      const datasets = new Map(sizes.map((size, index) => [`d${index}`, { bytes: size * gib }]));
      const keys = [...datasets.keys()];
      const nodes = fc
        .array(node(datasets, plain), { minLength: plain ? 5 : 0, maxLength: 8 })
        .map((all) => all.map((one, index) => named(one, index)));
      return nodes.chain((all) => {
        const names = all.map(({ name }) => name);
        return fc.record({
          nodes: fc.constant(all),
          running: names.length === 0 ? fc.constant([]) : fc.array(running(names, plain), { maxLength: 8 }),
          groups: fc
            .array(group(keys, names, plain), { minLength: 1, maxLength: 4 })
            .map((some) => some.map((one, index) => keyed(one, index))),
          datasets: fc.constant(datasets),
        });
      });
    });
}

/** Mostly the first, now and then another. */
function rarely<T>(usual: T, other: fc.Arbitrary<T>, weight = 1): fc.Arbitrary<T> {
  return fc.oneof({ weight: 6, arbitrary: fc.constant(usual) }, { weight, arbitrary: other });
}

/** Mostly with all of these labels. */
function labels(values: Readonly<Record<string, readonly string[]>>): fc.Arbitrary<Record<string, string>> {
  const entries = Object.entries(values).map(([key, some]) => [key, fc.option(fc.constantFrom(...some), { freq: 4 })]);
  return fc
    .record(Object.fromEntries(entries) as Record<string, fc.Arbitrary<string | null>>)
    .map((all) => Object.fromEntries(Object.entries(all).flatMap(([key, value]) => (value ? [[key, value]] : []))));
}

const nodeLabels = { zone: ['a', 'b', 'c'], disk: ['ssd', 'hdd'], generation: ['1', '2', '10', 'new'] };
const podLabels = { app: ['web', 'batch'], tier: ['front', 'back'] };

const taint = fc.constantFrom<Taint>(
  { key: 'dedicated', value: 'ml', effect: 'NoSchedule' },
  { key: 'dedicated', value: 'db', effect: 'NoExecute' },
  { key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' },
);
const softTaint = fc.constant<Taint>({ key: 'flaky', effect: 'PreferNoSchedule' });

const tolerations: fc.Arbitrary<Toleration> = fc.constantFrom<Toleration>(
  { key: 'dedicated', operator: 'Equal', value: 'ml', effect: 'NoSchedule' },
  { key: 'dedicated', operator: 'Exists' },
  { operator: 'Exists', effect: 'NoSchedule' },
  { key: 'dedicated', value: 'db' },
  { key: 'node.kubernetes.io/unschedulable', operator: 'Exists' },
);

const hostPorts: fc.Arbitrary<HostPort[]> = rarely<HostPort[]>(
  [],
  fc
    .record({
      ip: fc.constantFrom('0.0.0.0', '10.0.0.1', '10.0.0.2'),
      protocol: fc.constantFrom('TCP', 'TCP', 'UDP'),
      port: fc.constantFrom(8080, 8080, 9090),
    })
    .map((port) => [port]),
);

const requests: fc.Arbitrary<Amounts> = fc.record(
  {
    cpu: fc.constantFrom(0, 500, 1500),
    memory: fc.constantFrom(gib, 3 * gib),
    'nvidia.com/gpu': fc.constantFrom(1, 2),
  },
  { requiredKeys: [] },
);

function node(datasets: PlanInput['datasets'], plain: boolean): fc.Arbitrary<Omit<PlannedNode, 'name'>> {
  const parts = Object.fromEntries([...datasets].map(([key, { bytes }]) => [key, part(bytes)]));
  const bytes = fc.record(parts, { requiredKeys: [] }) as fc.Arbitrary<Record<string, number>>;
  const agent = fc.record(
    {
      availableBytes: fc.constantFrom(0, 50, 120, 400).map((size) => size * gib),
      residentBytes: bytes,
      pinnedBytes: bytes,
    },
    { requiredKeys: ['availableBytes', 'residentBytes'] },
  );
  return fc
    .record({
      labels: labels(nodeLabels),
      taints: rarely<Taint[]>([], fc.uniqueArray(plain ? taint : fc.oneof(taint, softTaint), { maxLength: 2 }), 2),
      unschedulable: rarely(false, fc.constant(true)),
      allocatable: fc.record({
        cpu: plain ? fc.constantFrom(4000, 8000) : fc.constantFrom(1000, 2000, 4000),
        memory: fc.constantFrom(4, 8).map((size) => size * (plain ? 4 : 1) * gib),
        pods: plain ? fc.constantFrom(3, 10) : fc.constantFrom(1, 3, 10),
        'nvidia.com/gpu': fc.constantFrom(plain ? 8 : 0, 1, 2, 4),
      }),
      agent: rarely<unknown>(undefined, agent, 30) as fc.Arbitrary<PlannedNode['agent']>,
      host: plain ? fc.constant('own') : rarely('own', fc.constantFrom('none', 'shared')),
    })
    .map(({ host, agent: served, labels: own, ...rest }) => ({
      ...rest,
      labels: host === 'own' ? own : { ...own, host },
      ...(served === undefined ? {} : { agent: served }),
    }));
}

function part(size: number): fc.Arbitrary<number> {
  return fc.constantFrom(0, 0.3, 0.95, 1, 1).map((share) => Math.floor(size * share));
}

/** `host`: whether the node has a hostname of its own; it is a label no more. */
function named({ labels: { host, ...own }, ...rest }: Omit<PlannedNode, 'name'>, index: number): PlannedNode {
  const name = `n${index}`;
  const hostname = host === 'none' ? {} : { 'kubernetes.io/hostname': host === 'shared' ? 'shared' : `host-${name}` };
  return { name, ...rest, labels: { ...own, ...hostname } };
}

function running(names: readonly string[], plain: boolean): fc.Arbitrary<RunningPod> {
  return fc.record({
    namespace: plain ? fc.constant('default') : fc.constantFrom('default', 'other'),
    labels: labels(podLabels),
    node: fc.constantFrom(...names),
    requests,
    hostPorts,
    deleting: rarely(false, fc.constant(true)),
    lasting: rarely(false, fc.constant(true)),
    repels: rarely(
      [],
      fc
        .constantFrom('zone', 'kubernetes.io/hostname')
        .map((topologyKey) => [
          { topologyKey, namespaces: ['default'], selector: { matchLabels: { app: 'web' }, matchExpressions: [] } },
        ]),
    ),
  });
}

const expression: fc.Arbitrary<Expression> = fc.constantFrom(
  { key: 'zone', operator: 'In', values: ['a', 'b'] },
  { key: 'zone', operator: 'NotIn', values: ['a'] },
  { key: 'disk', operator: 'Exists', values: [] },
  { key: 'disk', operator: 'DoesNotExist', values: [] },
  { key: 'generation', operator: 'Gt', values: ['1'] },
  { key: 'generation', operator: 'Lt', values: ['10'] },
);
const field: fc.Arbitrary<Expression> = fc
  .record({ operator: fc.constantFrom('In', 'NotIn'), name: fc.constantFrom('n0', 'n1') })
  .map(({ operator, name }) => ({ key: 'metadata.name', operator, values: [name] }));

const term = fc.record({
  matchExpressions: fc.array(expression, { maxLength: 2 }),
  matchFields: rarely<Expression[]>([], fc.tuple(field)),
});

const spread: fc.Arbitrary<TopologySpread> = fc
  .record({
    topologyKey: fc.constantFrom('zone', 'kubernetes.io/hostname', 'disk'),
    maxSkew: fc.constantFrom(1, 1, 2),
    minDomains: fc.constantFrom(undefined, undefined, 2, 3),
    hard: fc.constantFrom(true, true, false),
    selector: fc.constantFrom<LabelSelector>(
      { matchLabels: { app: 'web' }, matchExpressions: [] },
      { matchLabels: {}, matchExpressions: [{ key: 'app', operator: 'Exists', values: [] }] },
      { matchLabels: {}, matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['back'] }] },
      { matchLabels: {}, matchExpressions: [] },
    ),
    matchLabelKeys: rarely<string[]>([], fc.constant(['tier'])),
    honorAffinity: fc.constantFrom(true, true, false),
    honorTaints: fc.boolean(),
  })
  // Only hard constraints may have it, and no label may be asked for twice.
  .map(({ minDomains, ...one }) => ({
    ...one,
    minDomains: one.hard ? minDomains : undefined,
    matchLabelKeys: one.selector.matchExpressions.some(({ key }) => key === 'tier') ? [] : one.matchLabelKeys,
  }));

type Group = Omit<PodGroup, 'key' | 'pods'> & { count: number };

function group(datasets: readonly string[], names: readonly string[], plain: boolean): fc.Arbitrary<Group> {
  return fc.record({
    count: fc.integer({ min: 1, max: 4 }),
    namespace: fc.constant('default'),
    labels: labels(podLabels),
    requests,
    hostPorts,
    nodeSelector: rarely<Record<string, string>>({}, fc.constantFrom({ disk: 'ssd' }, { zone: 'a' }), 2),
    requiredTerms: rarely<Group['requiredTerms']>(undefined, fc.array(term, { minLength: 1, maxLength: 2 }), 3),
    preferredTerms: plain
      ? fc.constant([])
      : rarely<Group['preferredTerms']>([], fc.tuple(fc.record({ weight: fc.constantFrom(1, 50), term }))),
    tolerations: rarely<Toleration[]>([], fc.uniqueArray(tolerations, { maxLength: 2 }), 3),
    spread: rarely<TopologySpread[]>(
      [],
      fc.uniqueArray(plain ? spread.filter(({ hard }) => hard) : spread, {
        maxLength: 2,
        selector: ({ topologyKey, hard }) => `${topologyKey} ${hard}`,
      }),
      5,
    ),
    unmodelled: fc.constant([]),
    datasets: fc.uniqueArray(fc.constantFrom(...datasets), { minLength: 1, maxLength: 2 }),
    mode: fc.constantFrom('Wait', 'Prefer'),
    minPercent: fc.constantFrom(50, 95, 100),
    affinity: fc.constantFrom('Preferred', 'Required'),
    planned: plain
      ? fc.constant([])
      : rarely<string[]>([], fc.uniqueArray(fc.constantFrom('gone', ...names), { maxLength: 3 }), 3),
  });
}

function keyed({ count, ...rest }: Group, index: number): PodGroup {
  return { ...rest, key: `default/g${index}`, pods: Array.from({ length: count }, (_, pod) => `g${index}-${pod}`) };
}
