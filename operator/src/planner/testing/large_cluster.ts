import type { PlanInput, PlannedNode, PodGroup, RunningPod } from '../input.ts';
import { gib, group, spreadOver } from './inputs.ts';

export interface LargeCluster {
  nodes: number;
  datasets: number;
  /** Of datasets, that each node has bytes of. */
  residentDatasets: number;
  podsPerNode: number;
  gatedPods: number;
  podsPerGroup: number;
}

/**
 * A cluster in which groups have nothing in common: each has labels, requests, selectors, tolerations, topology spread
 * over zones or hosts, and datasets of its own, so that nothing that was worked out for one serves another.
 */
export function largeCluster(size: LargeCluster): PlanInput {
  return {
    nodes: Array.from({ length: size.nodes }, (_, index) => largeNode(index, size)),
    running: Array.from({ length: size.nodes * size.podsPerNode }, (_, index) => runningPod(index, size)),
    groups: Array.from({ length: size.gatedPods / size.podsPerGroup }, (_, index) => largeGroup(index, size)),
    datasets: new Map(
      Array.from({ length: size.datasets }, (_, index) => [`models.d${index}`, { bytes: (10 + (index % 90)) * gib }]),
    ),
  };
}

function largeNode(index: number, { datasets, residentDatasets }: LargeCluster): PlannedNode {
  const residentBytes: Record<string, number> = {};
  for (let one = 0; one < residentDatasets; one++) {
    const dataset = (index * 7 + one * 13) % datasets;
    residentBytes[`models.d${dataset}`] = ((10 + (dataset % 90)) * gib * (1 + ((index + one) % 4))) / 4;
  }
  const name = `ip-10-${index >> 8}-${index & 255}.internal`;
  return {
    name,
    labels: {
      'kubernetes.io/hostname': name,
      'kubernetes.io/os': 'linux',
      'topology.kubernetes.io/zone': `zone-${index % 6}`,
      'node.kubernetes.io/instance-type': `gpu-${index % 5}`,
      'hearth.storage/rack': `rack-${index % 200}`,
      generation: String(index % 12),
    },
    taints: index % 3 === 0 ? [{ key: 'nvidia.com/gpu', value: 'present', effect: 'NoSchedule' }] : [],
    unschedulable: index % 50 === 0,
    allocatable: { cpu: 64_000, memory: 512 * gib, pods: 110, 'nvidia.com/gpu': 8, 'ephemeral-storage': 1000 * gib },
    agent: { availableBytes: (200 + (index % 100)) * gib, residentBytes },
  };
}

function runningPod(index: number, { nodes, podsPerNode }: LargeCluster): RunningPod {
  const node = index % nodes;
  return {
    namespace: `team-${index % 10}`,
    labels: { app: `app-${index % 1000}`, tier: `tier-${index % 3}`, 'pod-template-hash': `hash-${index % 1000}` },
    node: `ip-10-${node >> 8}-${node & 255}.internal`,
    requests: { cpu: 1000, memory: 4 * gib, ...(index < nodes * 3 ? { 'nvidia.com/gpu': 2 } : {}) },
    hostPorts: index % podsPerNode === 0 ? [{ ip: '0.0.0.0', protocol: 'TCP', port: 9100 }] : [],
    deleting: false,
    ...(index % podsPerNode < 3 ? { lasting: true } : {}),
  };
}

function largeGroup(index: number, { datasets, podsPerGroup }: LargeCluster): PodGroup {
  const app = `app-${index}`;
  const types = [`gpu-${index % 5}`, `gpu-${(index + 1) % 5}`];
  return group(`team-${index % 10}/g${index}`, {
    namespace: `team-${index % 10}`,
    labels: { app, tier: `tier-${index % 3}` },
    pods: Array.from({ length: podsPerGroup }, (_, pod) => `g${index}-${pod}`),
    requests: { cpu: 4000 + index, memory: 16 * gib + index, 'nvidia.com/gpu': 1 + (index % 2) },
    nodeSelector: { 'kubernetes.io/os': 'linux' },
    requiredTerms: [
      {
        matchExpressions: [
          { key: 'node.kubernetes.io/instance-type', operator: 'In', values: types },
          { key: 'generation', operator: 'Gt', values: [String(index % 4)] },
          { key: 'hearth.storage/rack', operator: 'NotIn', values: [`rack-${index % 200}`] },
        ],
        matchFields: [],
      },
    ],
    preferredTerms: [
      {
        weight: 10,
        term: { matchExpressions: [{ key: 'generation', operator: 'In', values: ['11'] }], matchFields: [] },
      },
    ],
    tolerations: [
      { key: 'nvidia.com/gpu', operator: 'Exists' },
      { key: app, operator: 'Exists' },
    ],
    spread: [
      spreadOver(index % 2 === 0 ? 'topology.kubernetes.io/zone' : 'kubernetes.io/hostname', {
        selector: { matchLabels: { app }, matchExpressions: [] },
        maxSkew: 3,
      }),
    ],
    datasets: [`models.d${(index * 2) % datasets}`, `models.d${(index * 2 + 1) % datasets}`],
    affinity: index % 2 === 0 ? 'Preferred' : 'Required',
  });
}
