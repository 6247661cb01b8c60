import type { Dataset as AgentDataset, NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { type Dataset, registeredName } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts, Place, Source } from '../kubernetes/index.ts';
import { type ConditionState, condition } from '../reconciler/index.ts';
import { isComplete } from './copy.ts';

export interface KeptCopiesOptions {
  datasets: Pick<Source<Dataset>, 'all'>;
  nodes: Pick<Source<NodeFacts>, 'all' | 'get'>;
  placeOf: (node: string) => Place | undefined;
}

/** The copies that `lastCopy: Move` protects from the loss of their node. */
export class KeptCopies {
  readonly #options: KeptCopiesOptions;

  constructor(options: KeptCopiesOptions) {
    this.#options = options;
  }

  leaves({ name, leaving }: NodeFacts): boolean {
    return leaving || this.#options.placeOf(name)?.draining === true;
  }

  /** Complete copies on this node, as if it were leaving, without another copy on a staying node. */
  on(node: string, status: Pick<ClusterStatus, 'nodes' | 'datasets'>): LastCopy[] {
    const { datasets, nodes } = this.#options;
    const wanted = datasets
      .all()
      .filter(({ spec, metadata }) => spec.lastCopy === 'Move' && metadata.deletionTimestamp === undefined)
      .map(({ metadata }) => registeredName(metadata.namespace ?? '', metadata.name));
    if (wanted.length === 0) return [];
    const leaving = new Set([node, ...nodes.all().flatMap((one) => (this.leaves(one) ? [one.name] : []))]);
    return lastCopies(node, wanted, leaving, status);
  }

  /** A condition of a leaving node's NodeCache that tools can wait for; undefined for staying nodes. */
  condition(node: string, status: ClusterStatus | undefined): ConditionState | undefined {
    const facts = this.#options.nodes.get(node);
    if (facts === undefined || !this.leaves(facts)) return undefined;
    const type = 'LastCopiesMoved';
    if (status?.connected !== true)
      return condition(type, 'Unknown', 'NoAgentAnswers', 'No agent of the cluster answers');
    const copies = this.on(node, status);
    if (copies.length === 0) {
      return condition(type, 'True', 'NoLastCopies', 'The node holds no copy that would be lost with it');
    }
    const stuck = copies.filter(({ target }) => target === undefined);
    const names = copies.map(
      ({ dataset, target, trouble }) => `${dataset.name} ${target ? `to ${target}` : `(${trouble})`}`,
    );
    const message = `The only complete copies of ${copies.length} Datasets are here; they are copied: ${names.join(', ')}`;
    return condition(type, 'False', stuck.length === 0 ? 'Moving' : 'NowhereToMove', message);
  }
}

/** A Dataset with a complete copy on a leaving node and none on a staying node. */
export interface LastCopy {
  dataset: AgentDataset;
  /** The node that gets the next copy; undefined when `trouble` says why there is none. */
  target: string | undefined;
  trouble: string;
}

/** Pure. `wanted`: agents' names of protected Datasets. All leaving nodes choose the same target. */
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

/** Bytes that a node lacks for the whole dataset after the eviction of every unpinned byte. */
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
