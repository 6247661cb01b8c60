import { createHash } from 'node:crypto';
import { HearthError } from '@hearth/common';
import { type ManifestEntry, PathFilter } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { type DatasetTables, entryPages, type ManifestKeeper, type OriginCheck } from '../datasets/index.ts';
import { type AnswerRecord, nothingDone, type Requests } from '../requests/index.ts';
import { hasEnded, type SeenJob, type WarmJobs } from '../warm/index.ts';

export interface AdviceRequest {
  dataset: string;
  /** A revision of the dataset; empty: the current one. */
  manifest: string;
  paths: string[];
  /** node: the given agents, or this one. cluster: all agents. */
  scope: 'node' | 'cluster';
  nodes: string[];
}

export interface DontNeedAnswer {
  /** One answer for each agent, sorted by name. */
  answers: AnswerRecord[];
  /** Files that stay everywhere, because the origin no longer has them as listed. */
  notInOrigin: ManifestEntry[];
  cancelledJobs: string[];
}

/** Maximum number of running WILLNEED jobs in the cluster. */
const maxJobs = 64;
/** Lower priority than jobs of people and of the operator. */
const priority = 1000;
/** Maximum number of kept files in one request. */
const maxKept = 1000;
/** Feature of the control API without which an agent cannot execute the request. */
const feature = 'advice';

/** Advice of operators on the files of a dataset, like the advice of applications by ioctl on their mounts. */
export class Advice {
  readonly #context: AgentContext;
  readonly #datasets: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #check: OriginCheck;
  readonly #requests: Requests;
  readonly #jobs: WarmJobs;
  /** Number of pending creations by job name; a job runs before the mirror contains it. */
  readonly #creating = new Map<string, number>();

  constructor(
    context: AgentContext,
    parts: {
      datasets: DatasetTables;
      keeper: ManifestKeeper;
      check: OriginCheck;
      requests: Requests;
      jobs: WarmJobs;
    },
  ) {
    this.#context = context;
    this.#datasets = parts.datasets;
    this.#keeper = parts.keeper;
    this.#check = parts.check;
    this.#requests = parts.requests;
    this.#jobs = parts.jobs;
  }

  /**
   * Starts a fetch and returns its job; repeated advice returns the running job. Throws `Unavailable` while too many
   * jobs run; otherwise like warm jobs.
   */
  async willNeed(request: AdviceRequest, signal: AbortSignal): Promise<SeenJob> {
    const { dataset, paths, scope } = request;
    // By digest, so that advice on an earlier revision counts as different.
    const manifest = await this.#revision(request);
    const nodes = scope === 'node' ? namedOr(this.#context.node, request) : this.#fetchers();
    const asked = JSON.stringify([dataset, manifest, [...paths].sort(), scope, [...nodes].sort()]);
    const name = `advice-${createHash('sha256').update(asked).digest('hex').slice(0, 16)}`;
    const taken = new Set([...this.#running().map(({ job }) => job.name), ...this.#creating.keys()]);
    if (taken.size >= maxJobs && !taken.has(name)) {
      throw new HearthError(
        'Unavailable',
        `${taken.size} jobs of this kind are already running; wait for them, or cancel some (hearth jobs)`,
      );
    }
    const where = { nodes, replicas: 0, pin: false, pinOwner: '' };
    const how = { priority, rateLimit: 0n, peerRateLimit: 0n, deadlineSeconds: 0, verify: 'none' as const };
    const kind = { readyWhen: 'stored' as const, name, ensure: true, advice: scope };
    this.#creating.set(name, (this.#creating.get(name) ?? 0) + 1);
    try {
      return await this.#jobs.create({ dataset, manifest, paths, ...where, ...how, ...kind }, signal);
    } finally {
      const others = (this.#creating.get(name) ?? 1) - 1;
      if (others === 0) this.#creating.delete(name);
      else this.#creating.set(name, others);
    }
  }

  /**
   * Agents release the files from memory and caches, or from memory alone. Pinned, published and open files stay, and
   * unless `force` also files that the origin no longer has as listed, which `lacking` determines before anything is
   * released. Throws errors of the origin when that check fails; nothing is released then.
   */
  async dontNeed(
    request: AdviceRequest & { memoryOnly: boolean; force: boolean },
    signal: AbortSignal,
  ): Promise<DontNeedAnswer> {
    const { dataset, paths, memoryOnly, force } = request;
    const manifest = await this.#revision(request);
    await this.#keeper.opened(manifest, signal);
    const notInOrigin = memoryOnly || force ? [] : await this.#lacking(dataset, manifest, paths, signal);
    if (notInOrigin.length > maxKept) {
      throw new HearthError(
        'OriginChanged',
        `the origin of dataset ${dataset} no longer has ${notInOrigin.length} of the files as they were listed; nothing was released: name other files, or use --force to lose these`,
      );
    }
    const cancelledJobs = memoryOnly ? [] : await this.#cancelOpposites(dataset, manifest, paths);
    const nodes = request.scope === 'node' ? namedOr(this.#context.node, request) : [];
    const keep = notInOrigin.map(({ index }) => index);
    const asked = { kind: 'letGo' as const, dataset, manifest, paths, owner: '', evict: true, memoryOnly, keep };
    return { answers: await this.#ask(asked, nodes, signal), notInOrigin, cancelledJobs };
  }

  async #ask(
    asked: Parameters<Requests['ask']>[0],
    nodes: readonly string[],
    signal: AbortSignal,
  ): Promise<AnswerRecord[]> {
    const members = this.#context.members;
    const wanted = nodes.length === 0 ? [...members.caching()] : nodes;
    const older = new Set(
      members
        .all()
        .flatMap(({ node, apiFeatures }) => (wanted.includes(node) && !apiFeatures.includes(feature) ? [node] : [])),
    );
    const able = wanted.filter((node) => !older.has(node));
    const answers = able.length === 0 ? [] : await this.#requests.ask(asked, able, signal);
    const refusals = [...older].map(
      (node): AnswerRecord => ({
        node,
        ...nothingDone,
        errorCode: 'Unsupported',
        message: 'the release of its agent does not support advice; upgrade the agent, or use hearth evict',
      }),
    );
    return [...answers, ...refusals].sort((a, b) => (a.node < b.node ? -1 : 1));
  }

  /** Agents that can fetch a part of the bytes missing in the cluster. */
  #fetchers(): string[] {
    const { members } = this.#context;
    const ready = new Set(members.ready());
    const able = members.all().filter(({ node, apiFeatures }) => ready.has(node) && apiFeatures.includes(feature));
    if (able.length > 0) return able.map(({ node }) => node);
    throw new HearthError('Unavailable', 'no ready agent can fetch the files; hearth status shows why');
  }

  #running(): SeenJob[] {
    return this.#jobs.list().filter(({ job, view }) => job.advice !== undefined && !hasEnded(view.state));
  }

  async #cancelOpposites(dataset: string, manifest: string, paths: readonly string[]): Promise<string[]> {
    const sorted = [...paths].sort().join('\n');
    const opposite = this.#running().filter(
      ({ job }) =>
        job.dataset === dataset &&
        job.manifest === manifest &&
        (new PathFilter(paths).choosesAll || [...job.paths].sort().join('\n') === sorted),
    );
    await Promise.all(opposite.map(({ job }) => this.#jobs.cancel(job.name)));
    return opposite.map(({ job }) => job.name).sort();
  }

  async #revision({ dataset, manifest }: AdviceRequest): Promise<string> {
    const present = await this.#datasets.usable(dataset, true);
    if (manifest === '' || manifest === present.manifest) return present.manifest;
    if (await this.#datasets.hasRevision(dataset, manifest)) return manifest;
    throw new HearthError(
      'NotFound',
      `dataset ${dataset} has no revision ${manifest}; hearth dataset ls shows the current one`,
    );
  }

  async #lacking(
    dataset: string,
    manifest: string,
    paths: readonly string[],
    signal: AbortSignal,
  ): Promise<ManifestEntry[]> {
    const revision = await this.#datasets.readRevision({ dataset, manifest });
    if (revision === undefined) throw new HearthError('NotFound', `dataset ${dataset} was removed meanwhile`);
    try {
      return await this.#check.lacking(revision, this.#chosen(manifest, paths), signal);
    } catch (thrown) {
      const { code, message } = HearthError.from(thrown);
      throw new HearthError(
        code,
        `nothing was released, because the origin of dataset ${dataset} cannot be asked for the files: ${message}; try again, or use --force`,
        { cause: thrown },
      );
    }
  }

  async *#chosen(manifest: string, paths: readonly string[]): AsyncGenerator<ManifestEntry[]> {
    const filter = new PathFilter(paths);
    for await (const page of entryPages(this.#context.engine, manifest, { path: '', recursive: true })) {
      yield page.filter(({ path }) => filter.choosesAll || filter.matches(path));
    }
  }
}

function namedOr(own: string, { nodes }: AdviceRequest): string[] {
  return nodes.length === 0 ? [own] : [...new Set(nodes)];
}
