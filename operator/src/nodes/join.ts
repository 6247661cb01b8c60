import type { Dataset as AgentDataset } from '@hearth/common/generated/hearth/v1/control.ts';
import { registeredName, type StorageClusterSpec } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import { hasLabels } from '../kubernetes/index.ts';
import { isComplete } from './copy.ts';

/** A Dataset that a node must hold before it runs pods. */
export interface JoinDemand {
  dataset: string;
  /** The agents' record; undefined when `trouble` says why no copy is possible. */
  known: AgentDataset | undefined;
  complete: boolean;
  trouble: string;
}

/** Pure. Named Datasets first, then the most used ones that fit the remaining budget. */
export function joinDemands(
  policies: StorageClusterSpec['joinPolicies'],
  node: { name: string; labels: Readonly<Record<string, string>> },
  status: Pick<ClusterStatus, 'nodes' | 'datasets'>,
): JoinDemand[] {
  const demands = new Map<string, JoinDemand>();
  const matching = policies.filter(({ nodeSelector }) => hasLabels(node, nodeSelector));
  for (const { namespace, name } of matching.flatMap(({ datasets }) => datasets)) {
    const dataset = registeredName(namespace, name);
    demands.set(dataset, demandFor(dataset, status.datasets.get(dataset), node.name));
  }
  const most = Math.max(0, ...matching.map(({ mostUsed }) => mostUsed));
  if (most === 0) return [...demands.values()];
  let room = status.nodes.get(node.name)?.budgetBytes ?? 0n;
  for (const { known } of demands.values()) room -= known?.bytes ?? 0n;
  const used = [...status.datasets.values()]
    .filter((dataset) => !demands.has(dataset.name) && isUsable(dataset) && dataset.use > 0)
    .sort((a, b) => b.use - a.use || (a.name < b.name ? -1 : 1));
  let chosen = 0;
  for (const dataset of used) {
    if (chosen === most) break;
    if (dataset.bytes > room) continue;
    room -= dataset.bytes;
    chosen += 1;
    demands.set(dataset.name, demandFor(dataset.name, dataset, node.name));
  }
  return [...demands.values()];
}

function demandFor(dataset: string, known: AgentDataset | undefined, node: string): JoinDemand {
  if (known === undefined) return { dataset, known, complete: false, trouble: 'there is no such Dataset yet' };
  if (!isUsable(known)) {
    return { dataset, known: undefined, complete: false, trouble: `it is not Ready: ${known.message || known.state}` };
  }
  return { dataset, known, complete: isComplete(known, node), trouble: '' };
}

function isUsable({ manifest, state }: AgentDataset): boolean {
  return manifest !== '' && state === 'Ready';
}
