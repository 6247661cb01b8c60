import type { Dataset as AgentDataset, NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from '../agents/index.ts';
import { isComplete } from './copy.ts';

/** A Dataset of which a node that is to go has a complete copy, and no node that stays. */
export interface LastCopy {
  dataset: AgentDataset;
  /** The node that is to have the next copy; undefined: `trouble` says why there is none. */
  target: string | undefined;
  trouble: string;
}

/**
 * Pure. Last copies on `node`. `wanted`: agents' names of the Datasets whose last copy is to be kept. `leaving`: all
 * nodes that are to go, this one included. The target is chosen alike for all nodes that leave together.
 */
export function lastCopies(
  node: string,
  wanted: readonly string[],
  leaving: ReadonlySet<string>,
  status: Pick<ClusterStatus, 'nodes' | 'datasets'>,
): LastCopy[] {
  const staying = [...status.nodes.values()].filter((one) => one.ready && !leaving.has(one.node));
  return wanted.flatMap((name): LastCopy[] => {
    const dataset = status.datasets.get(name);
    if (dataset === undefined || dataset.manifest === '' || dataset.bytes === 0n || !isComplete(dataset, node))
      return [];
    if (staying.some((one) => isComplete(dataset, one.node))) return [];
    const roomy = staying.filter((one) => lacking(dataset, one) === 0n);
    const [target] = roomy.sort(
      (a, b) =>
        compare(residentOn(dataset, b.node), residentOn(dataset, a.node)) ||
        compare(b.budgetBytes - b.usedBytes, a.budgetBytes - a.usedBytes) ||
        (a.node < b.node ? -1 : 1),
    );
    if (target !== undefined) return [{ dataset, target: target.node, trouble: '' }];
    const trouble =
      staying.length === 0
        ? 'no other node of the cluster is ready'
        : `it has ${dataset.bytes} bytes, and no node that stays has room for as many beside what is pinned there`;
    return [{ dataset, target: undefined, trouble }];
  });
}

/** Bytes of room that a node lacks for all of it, though everything goes that is not pinned. */
function lacking(dataset: AgentDataset, { node, budgetBytes, pinnedBytes }: NodeStatus): bigint {
  const row = dataset.residency.find((one) => one.node === node);
  const pinnedHere = row?.pinned === true ? row.residentBytes : 0n;
  const left = budgetBytes - pinnedBytes - (dataset.bytes - pinnedHere);
  return left < 0n ? -left : 0n;
}

function residentOn({ residency }: AgentDataset, node: string): bigint {
  return residency.find((row) => row.node === node)?.residentBytes ?? 0n;
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
