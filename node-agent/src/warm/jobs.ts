import { randomBytes } from 'node:crypto';
import { epochMs, HearthError, within } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import {
  checkName,
  chooseFiles,
  type DatasetRecord,
  type DatasetTables,
  type ManifestKeeper,
} from '../datasets/index.ts';
import { checkOwner } from '../pins/index.ts';
import type { ClusterStatistics } from '../statistics/index.ts';
import { type Candidate, chooseReplicas } from './choice.ts';
import type { WarmJobRecord } from './record.ts';
import { hasEnded, type JobView } from './state.ts';
import type { WarmTables } from './table.ts';

export interface WarmRequest {
  dataset: string;
  /** A revision of the dataset; empty: the current one. */
  manifest: string;
  paths: string[];
  /** Empty: all ready agents. */
  nodes: string[];
  /** 0: all agents. */
  replicas: number;
  pin: boolean;
  pinOwner: string;
  priority: number;
  rateLimit: bigint;
  peerRateLimit: bigint;
  /** 0: no deadline. */
  deadlineSeconds: number;
  verify: WarmJobRecord['verify'];
  readyWhen: WarmJobRecord['readyWhen'];
  /** Empty: generated. */
  name: string;
  /** Return a running job of this name; replace an ended one. */
  ensure: boolean;
  /** Set for WILLNEED advice, to its scope. */
  advice?: 'node' | 'cluster';
}

export interface SeenJob {
  job: WarmJobRecord;
  view: JobView;
}

/** Watchers check the clock at this interval, because deadlines and the grace of absent agents pass without a write. */
const pollMs = 1_000;

/** Warm jobs as clients of the control API see them. */
export class WarmJobs {
  readonly #context: AgentContext;
  readonly #tables: WarmTables;
  readonly #datasets: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #statistics: Pick<ClusterStatistics, 'gather'>;

  constructor(
    context: AgentContext,
    tables: WarmTables,
    datasets: DatasetTables,
    keeper: ManifestKeeper,
    statistics: Pick<ClusterStatistics, 'gather'>,
  ) {
    this.#context = context;
    this.#tables = tables;
    this.#datasets = datasets;
    this.#keeper = keeper;
    this.#statistics = statistics;
  }

  /**
   * Throws `NotFound` when dataset, revision or agents do not exist or patterns match nothing, and `AlreadyExists` when
   * the name is taken.
   */
  async create(request: WarmRequest, signal: AbortSignal): Promise<SeenJob> {
    const dataset = await this.#datasets.usable(request.dataset);
    const name = request.name === '' ? `${dataset.name}-${randomBytes(3).toString('hex')}` : request.name;
    checkName('warm job', name);
    if (request.pinOwner !== '') checkOwner(request.pinOwner);
    const present = request.ensure ? await this.#tables.jobs.read(name, { signal }) : undefined;
    if (present !== undefined && !hasEnded(this.#see(present.value).view.state)) return this.#see(present.value);
    const revision = await this.#revision(dataset, request.manifest);
    const candidates = this.#candidates(request.nodes);
    const { bytes } = await this.measure(revision, request.paths, signal);
    const now = epochMs(this.#context.clock);
    const { pin, pinOwner, priority, rateLimit, peerRateLimit, verify, readyWhen, paths } = request;
    const job: WarmJobRecord = {
      name,
      dataset: dataset.name,
      manifest: revision.manifest,
      paths,
      nodes: request.replicas === 0 ? candidates : await this.#chooseNodes(candidates, request, bytes, signal),
      pin,
      pinOwner,
      priority,
      rateLimit,
      peerRateLimit,
      createdAt: now,
      verify,
      readyWhen,
      ...(request.advice === undefined ? {} : { advice: request.advice }),
      ...(request.deadlineSeconds === 0 ? {} : { deadlineAt: now + request.deadlineSeconds * 1000 }),
    };
    const compare = [{ key: this.#tables.jobs.key(name), modRevision: present?.modRevision ?? 0 }];
    const put = this.#tables.jobs.putOperation(name, job);
    const cleared = this.#tables
      .deletion(name)
      .filter((operation) => operation.kind === 'deletePrefix' || operation.key !== this.#tables.jobs.key(name));
    const result = await this.#context.store.transact({ compare, success: [put, ...cleared] }, { signal });
    if (!result.succeeded) {
      if (request.ensure) return await this.get(name);
      throw new HearthError('AlreadyExists', `a warm job ${name} already exists; choose another name`);
    }
    await this.#tables.jobsMirror.caughtUp(result.revision, signal);
    return this.#see(job);
  }

  /** Number of files and bytes that patterns choose in a revision; throws `NotFound` when they choose none. */
  async measure(
    revision: { name: string; manifest: string },
    paths: readonly string[],
    signal: AbortSignal,
  ): Promise<{ files: number; bytes: bigint }> {
    const { engine, clock, timings } = this.#context;
    await this.#keeper.opened(revision.manifest, within(clock, timings.requestMs, signal));
    const { files, bytes } = await engine.openManifest(revision.manifest);
    const choice = await chooseFiles(engine, { ...revision, bytes }, paths);
    return { files: choice.entries?.length ?? files, bytes: choice.bytes };
  }

  /** Like `measure`, by names as a client gives them. */
  async measureOf(name: string, manifest: string, paths: readonly string[], signal: AbortSignal) {
    return await this.measure(await this.#revision(await this.#datasets.usable(name), manifest), paths, signal);
  }

  async get(name: string): Promise<SeenJob> {
    return this.#see(await this.#tables.job(name));
  }

  /** Newest first. */
  list(): SeenJob[] {
    const jobs = this.#tables.jobsMirror.values();
    return jobs.sort((a, b) => b.createdAt - a.createdAt || (a.name < b.name ? -1 : 1)).map((job) => this.#see(job));
  }

  /** Yields the job now and after changes, at most once per progress interval; the last value has ended. */
  async *watch(name: string, signal: AbortSignal): AsyncGenerator<SeenJob> {
    const { promise: woken, resolve } = Promise.withResolvers<void>();
    let wake = resolve;
    let waiting = woken;
    const sources = [
      this.#tables.jobsMirror,
      this.#tables.progressMirror,
      this.#tables.divisionsMirror,
      this.#context.members,
    ];
    const offs = sources.map((source) => source.onChange(() => wake()));
    const cancel = this.#context.clock.every(pollMs, () => wake());
    const stop = () => wake();
    signal.addEventListener('abort', stop);
    try {
      let shown = '';
      for (
        let job = await this.#tables.job(name);
        ;
        job = this.#tables.jobsMirror.get(name) ?? (await this.#tables.job(name))
      ) {
        const seen = this.#see(job);
        const text = fingerprint(seen);
        if (text !== shown) yield seen;
        shown = text;
        if (hasEnded(seen.view.state)) return;
        await waiting;
        const next = Promise.withResolvers<void>();
        wake = next.resolve;
        waiting = next.promise;
        if (signal.aborted) return;
      }
    } finally {
      cancel();
      signal.removeEventListener('abort', stop);
      for (const off of offs) off();
    }
  }

  /** No effect on a job that has ended. */
  async cancel(name: string): Promise<SeenJob> {
    await this.#tables.jobs.update(name, (present) =>
      present === undefined || present.end !== undefined || present.cancelledAt !== undefined
        ? undefined
        : { ...present, cancelledAt: epochMs(this.#context.clock) },
    );
    return await this.get(name);
  }

  async #revision(dataset: DatasetRecord, manifest: string): Promise<{ name: string; manifest: string }> {
    const { name } = dataset;
    if (manifest === '' || manifest === dataset.manifest) return { name, manifest: dataset.manifest };
    if (await this.#datasets.hasRevision(name, manifest)) return { name, manifest };
    throw new HearthError(
      'NotFound',
      `dataset ${name} has no revision ${manifest}; hearth dataset ls shows the current one`,
    );
  }

  #see(job: WarmJobRecord): SeenJob {
    return { job, view: this.#tables.view(job, this.#context.members.caching(), this.#context.timings.goneGraceMs) };
  }

  #candidates(named: readonly string[]): string[] {
    const ready = this.#context.members.ready().sort();
    if (named.length === 0) {
      if (ready.length > 0) return ready;
      throw new HearthError('Unavailable', 'no agent is ready; hearth status shows why');
    }
    const members = this.#context.members.names();
    const unknown = named.filter((node) => !members.has(node));
    if (unknown.length === 0) return [...new Set(named)];
    throw new HearthError('NotFound', `there is no agent ${unknown.join(', ')}; hearth status lists all agents`);
  }

  /** An agent whose figures are unknown counts as one without room. */
  async #chooseNodes(
    nodes: readonly string[],
    request: WarmRequest,
    bytes: bigint,
    signal: AbortSignal,
  ): Promise<string[]> {
    const { statistics } = await this.#statistics.gather({ nodes, datasets: [request.dataset] }, signal);
    const candidates = nodes.map((node): Candidate => {
      const known = statistics.get(node);
      const residentBytes = known?.residency[request.dataset]?.residentBytes ?? 0n;
      const availableBytes = (known?.budgetBytes ?? 0n) - (known?.pinnedBytes ?? 0n);
      return { node, residentBytes: residentBytes < bytes ? residentBytes : bytes, availableBytes };
    });
    return chooseReplicas(candidates, request.replicas, bytes);
  }
}

function fingerprint(seen: SeenJob): string {
  return JSON.stringify(seen, (_, value) => (typeof value === 'bigint' ? value.toString() : value));
}
