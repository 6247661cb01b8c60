import { type Dataset, registeredName } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts, Source } from '../kubernetes/index.ts';
import { type ConditionState, condition } from '../reconciler/index.ts';
import { type LastCopy, lastCopies } from './leaving.ts';

export interface KeptCopiesOptions {
  datasets: Pick<Source<Dataset>, 'all'>;
  nodes: Pick<Source<NodeFacts>, 'all' | 'get'>;
}

/** Which copies may not be lost with their node, as the Datasets ask by `lastCopy: Move`. */
export class KeptCopies {
  readonly #options: KeptCopiesOptions;

  constructor(options: KeptCopiesOptions) {
    this.#options = options;
  }

  /** Complete copies on this node, taken as one that is to go, of which there is none on a node that stays. */
  on(node: string, status: Pick<ClusterStatus, 'nodes' | 'datasets'>): LastCopy[] {
    const { datasets, nodes } = this.#options;
    const wanted = datasets
      .all()
      .filter(({ spec, metadata }) => spec.lastCopy === 'Move' && metadata.deletionTimestamp === undefined)
      .map(({ metadata }) => registeredName(metadata.namespace ?? '', metadata.name));
    if (wanted.length === 0) return [];
    const leaving = new Set([node, ...nodes.all().flatMap((one) => (one.leaving ? [one.name] : []))]);
    return lastCopies(node, wanted, leaving, status);
  }

  /** Says if a leaving node may go: a condition of its NodeCache, so that tools can wait for it; else undefined. */
  condition(node: string, status: ClusterStatus | undefined): ConditionState | undefined {
    if (this.#options.nodes.get(node)?.leaving !== true) return undefined;
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
