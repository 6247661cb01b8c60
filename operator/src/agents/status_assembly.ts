import { apiDifference, apiDifferences, HearthError, understandsApi } from '@hearth/common';
import type {
  Dataset,
  DatasetResidency,
  GetStatusResponse,
  NodeFigures,
  NodeReport,
  NodeReportMark,
  NodeStatus,
  WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from './agents.ts';

const client = 'the operator';

/** All that one agent has reported of itself. */
interface Reported {
  mark: NodeReportMark | undefined;
  figures: NodeFigures | undefined;
  /** By dataset, without those of which the node has nothing. */
  residency: Map<string, DatasetResidency>;
  /** Of `residency`; undefined after a change of it. */
  residentBytes: Record<string, bigint> | undefined;
}

/**
 * The status of a cluster, put together from one agent's records and every agent's own report. A status shares with the
 * one before it every node, dataset and job that has not changed, so that listeners compare identities.
 */
export class StatusAssembly {
  #api: Pick<GetStatusResponse, 'node' | 'apiVersion' | 'apiFeatures'> | undefined;
  /** What records say; figures and residency of agents of an earlier release included. */
  readonly #nodes = new Map<string, NodeStatus>();
  readonly #datasets = new Map<string, Dataset>();
  #jobs = new Map<string, WarmJob>();
  readonly #reported = new Map<string, Reported>();
  /** Reported rows by dataset, then by node. */
  readonly #rows = new Map<string, Map<string, DatasetResidency>>();
  readonly #failures = new Map<string, string>();
  readonly #staleNodes = new Set<string>();
  readonly #staleDatasets = new Set<string>();
  #built: Pick<ClusterStatus, 'nodes' | 'datasets' | 'jobs'> = {
    nodes: new Map(),
    datasets: new Map(),
    jobs: new Map(),
  };
  #recordsAt = 0;

  /**
   * Takes a message of WatchStatus, received at `at`. One without `changes` is of an agent of an earlier release, and
   * says everything of all agents. Throws `Unsupported` for an incompatible API.
   */
  applyRecords(message: GetStatusResponse, at: number): void {
    if (!understandsApi(message)) {
      const difference = apiDifference(message, `the agent on ${message.node}`, client) ?? '';
      throw new HearthError('Unsupported', difference);
    }
    this.#api = message;
    this.#recordsAt = at;
    const { changes } = message;
    const whole = changes === undefined || changes.whole;
    if (changes === undefined) for (const node of [...this.#reported.keys()]) this.forget(node);
    for (const node of gone(
      this.#nodes,
      message.nodes.map(({ node }) => node),
      whole,
      changes?.nodesGone,
    )) {
      this.#nodes.delete(node);
      this.forget(node);
      this.#staleNodes.add(node);
    }
    for (const name of gone(
      this.#datasets,
      message.datasets.map(({ name }) => name),
      whole,
      changes?.datasetsGone,
    )) {
      this.#datasets.delete(name);
      this.#staleDatasets.add(name);
    }
    for (const node of message.nodes) {
      this.#nodes.set(node.node, node);
      this.#staleNodes.add(node.node);
    }
    for (const dataset of message.datasets) {
      this.#datasets.set(dataset.name, dataset);
      this.#staleDatasets.add(dataset.name);
    }
    if (!whole && message.jobs.length === 0 && changes.jobsGone.length === 0) return;
    const jobs = new Map(whole ? [] : this.#jobs);
    for (const name of changes?.jobsGone ?? []) jobs.delete(name);
    for (const job of message.jobs) jobs.set(job.name, job);
    this.#jobs = jobs;
  }

  /** Takes all parts of one report of a node's own agent. */
  applyReport(node: string, parts: readonly NodeReport[]): void {
    if (parts[0]?.whole === true) this.forget(node);
    const reported = this.#reported.get(node) ?? nothingReported();
    this.#reported.set(node, reported);
    this.#failures.delete(node);
    for (const { mark, figures, datasets, datasetsGone } of parts) {
      reported.mark = mark;
      reported.figures = figures ?? reported.figures;
      for (const { dataset, ...row } of datasets) {
        this.#setRow(node, dataset, reported, saysNothing(row) ? undefined : { node, ...row });
      }
      for (const dataset of datasetsGone) this.#setRow(node, dataset, reported, undefined);
    }
    this.#staleNodes.add(node);
  }

  /** The reason why a node's agent does not report now. Earlier figures stay while the agent is a member. */
  failed(node: string, reason: string): void {
    if (this.#failures.get(node) === reason) return;
    this.#failures.set(node, reason);
    this.#staleNodes.add(node);
  }

  /** Drops what a node's agent has reported. */
  forget(node: string): void {
    const reported = this.#reported.get(node);
    this.#reported.delete(node);
    this.#failures.delete(node);
    if (reported === undefined) return;
    for (const dataset of reported.residency.keys()) this.#setRow(node, dataset, undefined, undefined);
    this.#staleNodes.add(node);
  }

  /** The last report of a node that was applied. */
  markOf(node: string): NodeReportMark | undefined {
    return this.#reported.get(node)?.mark;
  }

  /** Agents that report by themselves; empty when the records say everything. */
  reporting(): string[] {
    return [...this.#nodes.values()].flatMap(({ node, apiFeatures, wire }) =>
      apiFeatures.includes('node-reports') && wire.length > 0 ? [node] : [],
    );
  }

  /** Whether anything has changed since the last `build`. */
  get stale(): boolean {
    return this.#staleNodes.size > 0 || this.#staleDatasets.size > 0 || this.#built.jobs !== this.#jobs;
  }

  /** The present status; undefined before the first records. */
  build(): ClusterStatus | undefined {
    if (this.#api === undefined) return undefined;
    const nodes = this.#staleNodes.size === 0 ? this.#built.nodes : new Map(this.#built.nodes);
    for (const node of this.#staleNodes) put(nodes as Map<string, NodeStatus>, node, this.#nodeOf(node));
    const datasets = this.#staleDatasets.size === 0 ? this.#built.datasets : new Map(this.#built.datasets);
    for (const name of this.#staleDatasets) put(datasets as Map<string, Dataset>, name, this.#datasetOf(name));
    this.#staleNodes.clear();
    this.#staleDatasets.clear();
    this.#built = { nodes, datasets, jobs: this.#jobs };
    return {
      ...this.#built,
      receivedAt: this.#recordsAt,
      connected: true,
      apiDifferences: apiDifferences({ ...this.#api, nodes: [...nodes.values()] }, client),
    };
  }

  #setRow(node: string, dataset: string, reported: Reported | undefined, row: DatasetResidency | undefined): void {
    const before = this.#rows.get(dataset)?.get(node);
    if (before === undefined && row === undefined) return;
    if (reported !== undefined && before?.residentBytes !== row?.residentBytes) reported.residentBytes = undefined;
    const rows = this.#rows.get(dataset) ?? new Map<string, DatasetResidency>();
    this.#rows.set(dataset, rows);
    if (row === undefined) {
      rows.delete(node);
      reported?.residency.delete(dataset);
      if (rows.size === 0) this.#rows.delete(dataset);
    } else {
      rows.set(node, row);
      reported?.residency.set(dataset, row);
    }
    this.#staleDatasets.add(dataset);
  }

  #nodeOf(name: string): NodeStatus | undefined {
    const node = this.#nodes.get(name);
    const reported = this.#reported.get(name);
    if (node === undefined) return undefined;
    const failure = this.#failures.get(name);
    if (reported?.figures === undefined) return failure === undefined ? node : { ...node, figuresMissing: failure };
    const { startedAtMs, ...figures } = reported.figures;
    reported.residentBytes ??= Object.fromEntries(
      [...reported.residency].map(([dataset, row]) => [dataset, row.residentBytes]),
    );
    return { ...node, ...figures, residentBytes: reported.residentBytes, figuresMissing: failure ?? '' };
  }

  #datasetOf(name: string): Dataset | undefined {
    const dataset = this.#datasets.get(name);
    const rows = this.#rows.get(name);
    if (dataset === undefined || rows === undefined) return dataset;
    return { ...dataset, residency: [...dataset.residency, ...rows.values()] };
  }
}

const nothingReported = (): Reported => ({
  mark: undefined,
  figures: undefined,
  residency: new Map(),
  residentBytes: undefined,
});

/** True of most rows of a large cluster: an agent reports every dataset, and has the bytes of a few. */
function saysNothing(row: Omit<DatasetResidency, 'node'>): boolean {
  const { residentBytes, memoryBytes, completeFiles, pinned, sourcesAside } = row;
  const hasBytes = residentBytes > 0n || memoryBytes > 0n || completeFiles > 0n;
  return !hasBytes && !pinned && sourcesAside.length === 0;
}

/** Names that a message says are gone: those that a whole message lacks, or those that it names. */
function gone(
  known: ReadonlyMap<string, unknown>,
  present: readonly string[],
  whole: boolean,
  named: readonly string[] = [],
): string[] {
  if (!whole) return [...named];
  const kept = new Set(present);
  return [...known.keys()].filter((name) => !kept.has(name));
}

function put<T>(map: Map<string, T>, key: string, value: T | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}
