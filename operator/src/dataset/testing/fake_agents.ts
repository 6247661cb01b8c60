import { HearthError, type RequestOf } from '@hearth/common';
import {
  type AddDatasetProgress,
  type AddDatasetRequest,
  type Dataset as AgentDataset,
  NodeStatus,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agents, CallOptions, ClusterAgents, ClusterStatus, StatusListener } from '../../agents/index.ts';

type Listing = (request: AddDatasetRequest, signal: AbortSignal) => AsyncIterable<Partial<AddDatasetProgress>>;

/** The agents of one cluster, without any network: they know what they are sent, and list as the test says. */
export class FakeAgents implements Agents, ClusterAgents {
  readonly cluster: string;
  status: ClusterStatus | undefined;
  readonly trouble = undefined;
  /** Every call but those of the status. */
  readonly calls: { name: string; request: unknown; feature?: string }[] = [];
  /** The error of the next calls of this name, before anything else happens. */
  readonly failing = new Map<string, HearthError>();
  readonly #listeners = new Set<StatusListener>();
  readonly #listing: Listing;

  /** `listing`: its last message has the dataset. */
  constructor(cluster: string, listing: Listing) {
    this.cluster = cluster;
    this.#listing = listing;
  }

  get(cluster: string): ClusterAgents | undefined {
    return cluster === this.cluster ? this : undefined;
  }

  onChange(listener: StatusListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  connect(connected = true): void {
    this.#notify({ connected });
  }

  /** They run on these nodes, with these features of the control API. */
  run(features: Readonly<Record<string, readonly string[]>>): void {
    const nodes = Object.entries(features).map(([node, apiFeatures]) => {
      return [node, NodeStatus.fromPartial({ node, ready: true, apiFeatures: [...apiFeatures] } as never)] as const;
    });
    this.#notify({ nodes: new Map(nodes) });
  }

  /** Changes the agents' knowledge of a dataset; undefined: they forget it. */
  know(name: string, dataset: AgentDataset | undefined): void {
    const datasets = new Map(this.status?.datasets);
    if (dataset === undefined) datasets.delete(name);
    else datasets.set(name, dataset);
    this.#notify({ datasets });
  }

  /** As agents of which some have known these for long. */
  knowAll(datasets: ReadonlyMap<string, AgentDataset>): void {
    this.#notify({ datasets });
  }

  /** Their store is new. */
  forgetAll(): void {
    this.#notify({ datasets: new Map() });
  }

  called(name: string): unknown[] {
    return this.calls.filter((call) => call.name === name).map((call) => call.request);
  }

  call: ClusterAgents['call'] = async (name, request, { feature }) => {
    this.#enter(name, request, feature);
    const answers: Record<string, () => unknown> = {
      setCredentials: () => ({}),
      createWritableVolume: () => ({ logNode: 'node' }),
      getWritableVolume: () => ({ maxBytes: 0n }),
      resizeWritableVolume: () => ({ maxBytes: (request as RequestOf<'resizeWritableVolume'>).maxBytes }),
      deleteWritableVolume: () => ({}),
      removeDataset: () => this.#remove((request as RequestOf<'removeDataset'>).name),
      getDataset: () => this.#known((request as RequestOf<'getDataset'>).name),
    };
    const answer = answers[name] ?? (() => missing(`call ${name}`));
    return answer() as never;
  };

  stream: ClusterAgents['stream'] = (name, request, options) => {
    return this.#add(name, request as AddDatasetRequest, options) as never;
  };

  async *#add(
    name: string,
    request: AddDatasetRequest,
    { signal, feature }: CallOptions,
  ): AsyncIterable<AddDatasetProgress> {
    this.#enter(name, request, feature);
    for await (const message of this.#listing(request, signal)) {
      signal.throwIfAborted();
      if (message.dataset !== undefined) this.know(request.name, message.dataset);
      yield { filesListed: 0n, bytesListed: 0n, dataset: undefined, unchanged: false, ...message };
    }
  }

  #enter(name: string, request: unknown, feature: string | undefined): void {
    this.calls.push({ name, request, ...(feature === undefined ? {} : { feature }) });
    const error = this.failing.get(name);
    if (error !== undefined) throw error;
  }

  #known(name: string): AgentDataset {
    return this.status?.datasets.get(name) ?? missing(`dataset ${name}`);
  }

  #remove(name: string): object {
    this.#known(name);
    this.know(name, undefined);
    return {};
  }

  #notify(change: Partial<ClusterStatus>): void {
    const before = this.status;
    const fresh: ClusterStatus = {
      receivedAt: 0,
      connected: true,
      nodes: new Map(),
      datasets: new Map(),
      jobs: new Map(),
      apiDifferences: [],
    };
    this.status = { ...(before ?? fresh), ...change, receivedAt: Date.now() };
    for (const listener of this.#listeners) listener(this.cluster, before, this.status);
  }
}

function missing(what: string): never {
  throw new HearthError('NotFound', `there is no ${what}`);
}
