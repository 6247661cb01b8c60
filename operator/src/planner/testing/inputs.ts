import type { PlanInput, PlannedNode, PodGroup, RunningPod, TopologySpread } from '../input.ts';

export const gib = 2 ** 30;

/** A node with an agent, plenty of room and a hostname; `resident` and `available` in GiB. */
export function node(
  name: string,
  { resident = {}, available = 1000, agent = true, ...rest }: NodeOptions = {},
): PlannedNode {
  const bytes = Object.entries(resident).map(([key, value]): [string, number] => [key, value * gib]);
  return {
    name,
    taints: [],
    unschedulable: false,
    allocatable: { cpu: 8000, memory: 32 * gib, pods: 110, 'nvidia.com/gpu': 8 },
    ...rest,
    labels: { 'kubernetes.io/hostname': name, ...rest.labels },
    ...(agent ? { agent: { availableBytes: available * gib, residentBytes: Object.fromEntries(bytes) } } : {}),
  };
}

export interface NodeOptions extends Partial<Omit<PlannedNode, 'agent'>> {
  resident?: Record<string, number>;
  available?: number;
  agent?: boolean;
}

/** A group of one pod that asks for one GPU and uses the dataset `model`. */
export function group(key: string, options: Partial<PodGroup> = {}): PodGroup {
  return {
    key,
    namespace: 'default',
    labels: { app: key },
    pods: [`${key}-0`],
    requests: { 'nvidia.com/gpu': 1 },
    hostPorts: [],
    nodeSelector: {},
    requiredTerms: undefined,
    preferredTerms: [],
    tolerations: [],
    spread: [],
    unmodelled: [],
    datasets: ['model'],
    mode: 'Wait',
    minPercent: 100,
    affinity: 'Preferred',
    planned: [],
    ...options,
  };
}

export function pods(key: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${key}-${index}`);
}

export function running(on: string, options: Partial<RunningPod> = {}): RunningPod {
  return { namespace: 'default', labels: {}, node: on, requests: {}, hostPorts: [], deleting: false, ...options };
}

export function spreadOver(topologyKey: string, options: Partial<TopologySpread> = {}): TopologySpread {
  return {
    topologyKey,
    maxSkew: 1,
    minDomains: undefined,
    hard: true,
    selector: { matchLabels: {}, matchExpressions: [] },
    matchLabelKeys: [],
    honorAffinity: true,
    honorTaints: false,
    ...options,
  };
}

/** Datasets in GiB; by default `model` with 100. */
export function input(
  nodes: readonly PlannedNode[],
  groups: readonly PodGroup[],
  options: { running?: readonly RunningPod[]; datasets?: Record<string, number> } = {},
): PlanInput {
  const sizes = Object.entries(options.datasets ?? { model: 100 });
  return {
    nodes,
    groups,
    running: options.running ?? [],
    datasets: new Map(sizes.map(([key, size]) => [key, { bytes: size * gib }])),
  };
}
