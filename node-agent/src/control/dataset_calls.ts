import { epochMs, HearthError } from '@hearth/common';
import type {
  AddDatasetProgress,
  AddDatasetRequest,
  Dataset,
  Entry,
  GetDatasetRequest,
  ListDatasetsRequest,
  ListDatasetsResponse,
  ListEntriesRequest,
  RemoveDatasetRequest,
  RemoveDatasetResponse,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { isEmpty } from '../credentials/index.ts';
import { entryPages, type ListingProgress } from '../datasets/index.ts';
import { hasOwn, mirrorsOf, type Source } from '../origins/index.ts';
import type { NodeStatistics } from '../statistics/index.ts';
import { datasetMessage, resolvingMessage } from './convert.ts';

/**
 * Completes a source and refuses one that this agent may not read, before anything is registered. `credentialed`: the
 * dataset has its own credentials, so nothing from the agent's identity is filled in.
 */
export type PrepareSource = (source: Source, credentialed: boolean, dataset: string) => Source;

export class DatasetCalls {
  readonly #agent: Agent;
  readonly #prepare: PrepareSource;

  constructor(agent: Agent, prepare: PrepareSource) {
    this.#agent = agent;
    this.#prepare = prepare;
  }

  /** Yields progress while this or another agent lists the origin; the last message contains the dataset. */
  async *addDataset(request: AddDatasetRequest, signal: AbortSignal): AsyncGenerator<AddDatasetProgress> {
    const { name, credentials, include, exclude, source: asked } = request;
    if (asked?.kind === undefined) {
      throw new HearthError(
        'InvalidArgument',
        'the dataset has no source; give a directory, s3://, https:// or hf:// source',
      );
    }
    const own = credentials === undefined ? this.#agent.credentials.isOwn(name) : !isEmpty(credentials);
    const mirrors = mirrorsOf(asked).map((mirror, index) => this.#prepare(mirror, hasOwn(asked, index + 1), name));
    const first = this.#prepare(asked, own && hasOwn(asked, 0), name);
    const source = { ...first, mirrors: first.mirrors && { ...first.mirrors, sources: mirrors } };
    const what = { source, include, exclude };
    await this.#agent.resolution.check(name, what, signal);
    if (credentials !== undefined) await this.#agent.credentialSharing.set(name, credentials, signal);
    let latest: ListingProgress = { filesListed: 0, bytesListed: 0n };
    let wake = Promise.withResolvers<void>();
    const note = (progress: ListingProgress) => {
      latest = progress;
      wake.resolve();
    };
    const adding = this.#agent.resolution.add(name, what, note, signal);
    const ended = adding.then(
      () => true,
      () => true,
    );
    while (!(await Promise.race([ended, wake.promise]))) {
      wake = Promise.withResolvers<void>();
      yield progressMessage(latest);
    }
    const { dataset, unchanged } = await adding;
    yield { ...progressMessage(latest), dataset: this.#message(dataset, this.#own()), unchanged };
  }

  async listDatasets({ recordsOnly }: ListDatasetsRequest, signal: AbortSignal): Promise<ListDatasetsResponse> {
    const all = this.#agent.clusterStatistics;
    const { statistics } = recordsOnly ? all.stored() : await all.gather({}, signal);
    const nodes = [...statistics.values()];
    const datasets = this.#agent.datasets.all().flatMap(({ dataset, resolving }): Dataset[] => {
      if (dataset !== undefined) return [this.#message(dataset, nodes)];
      return resolving === undefined ? [] : [resolvingMessage(resolving)];
    });
    return { datasets };
  }

  async getDataset({ name, recordsOnly }: GetDatasetRequest, signal: AbortSignal): Promise<Dataset> {
    const resolving = this.#agent.datasets.resolvingMirror.get(name);
    const present = await this.#agent.datasets.datasets.read(name);
    if (present === undefined && resolving !== undefined) return resolvingMessage(resolving);
    const dataset = await this.#agent.datasets.get(name);
    const all = this.#agent.clusterStatistics;
    const { statistics } = recordsOnly ? all.stored() : await all.gather({ datasets: [name] }, signal);
    return this.#message(dataset, [...statistics.values()]);
  }

  async removeDataset(
    { name, evict, nodes }: RemoveDatasetRequest,
    signal: AbortSignal,
  ): Promise<RemoveDatasetResponse> {
    const known = nodes.length === 0 ? {} : { nodes: new Set(nodes) };
    await this.#agent.removal.remove(name, { evict, ...known }, signal);
    return {};
  }

  async *listEntries(request: ListEntriesRequest, signal: AbortSignal): AsyncGenerator<Entry> {
    const dataset = await this.#agent.datasets.usable(request.dataset, true);
    await this.#agent.keeper.openedSoon(dataset.manifest, signal);
    const path = request.path.replace(/^\/+|\/+$/g, '');
    for await (const page of entryPages(this.#agent.context.engine, dataset.manifest, {
      path,
      recursive: request.recursive,
    })) {
      for (const entry of page) {
        const { path: full, kind, size, contentKey, sourceDigest, symlinkTarget, residentBytes } = entry;
        yield { path: full, kind, size, contentKey, sourceDigest, symlinkTarget, residentBytes };
      }
    }
  }

  #own(): NodeStatistics[] {
    const { current } = this.#agent.statistics;
    return current === undefined ? [] : [current];
  }

  #message(dataset: Parameters<typeof datasetMessage>[0], nodes: readonly NodeStatistics[]): Dataset {
    const resolving = this.#agent.datasets.resolvingMirror.get(dataset.name);
    const usage = this.#agent.usage.of(dataset.name);
    const now = epochMs(this.#agent.context.clock);
    return datasetMessage(dataset, { resolving, nodes, usage, now });
  }
}

function progressMessage({ filesListed, bytesListed }: ListingProgress): AddDatasetProgress {
  return { filesListed: BigInt(filesListed), bytesListed, dataset: undefined, unchanged: false };
}
