import { HearthError, type Logger } from '@hearth/common';
import { type Dataset, registeredName } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { noCredentials } from './registration.ts';

export interface RemovalOptions {
  agents: Pick<Agents, 'get'>;
  logger: Logger;
  /** Milliseconds since the epoch. */
  now(): number;
  /** A deletion waits this long for agents that cannot be reached, then it ends without them. */
  patienceMs: number;
}

export type RemovalResult =
  | { kind: 'removed' }
  /** Agents cannot be reached, and were not for as long as the deletion has patience. */
  | { kind: 'abandoned'; message: string }
  | { kind: 'waits'; message: string; inUse: boolean; retryMs: number };

const callMs = 60_000;
const inUseMs = 10_000;
const unreachableMs = 15_000;

/** Takes deleted Datasets out of the agents. */
export class Removal {
  readonly #options: RemovalOptions;
  /** Since when agents have not answered, by the Dataset's uid. */
  readonly #waiting = new Map<string, number>();

  constructor(options: RemovalOptions) {
    this.#options = options;
  }

  /** Idempotent. Agents drop the bytes too, but for what other datasets share. Does not throw. */
  async remove(dataset: Dataset, cluster: string, signal: AbortSignal): Promise<RemovalResult> {
    const { metadata } = dataset;
    const uid = metadata.uid ?? '';
    const name = registeredName(metadata.namespace ?? '', metadata.name);
    try {
      await this.#removeAt(cluster, name, dataset.spec.secretRef !== undefined, signal);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (signal.aborted) return { kind: 'waits', message: 'the operator ends', inUse: false, retryMs: 0 };
      if (error.code === 'InUse') {
        this.#waiting.delete(uid);
        return { kind: 'waits', message: error.message, inUse: true, retryMs: inUseMs };
      }
      return this.#outOfReach(uid, cluster, error);
    }
    this.#waiting.delete(uid);
    return { kind: 'removed' };
  }

  async #removeAt(cluster: string, name: string, forgetCredentials: boolean, signal: AbortSignal): Promise<void> {
    const agents = this.#options.agents.get(cluster);
    if (agents === undefined)
      throw new HearthError('Unavailable', `no agent of StorageCluster ${cluster} is known yet`);
    const options = { signal, deadlineMs: callMs };
    await agents.call('removeDataset', { name, evict: true }, options).catch(unlessNotFound);
    if (!forgetCredentials) return;
    await agents.call('setCredentials', { dataset: name, credentials: noCredentials }, options).catch(unlessNotFound);
  }

  #outOfReach(uid: string, cluster: string, error: HearthError): RemovalResult {
    const since = this.#waiting.get(uid) ?? this.#options.now();
    this.#waiting.set(uid, since);
    if (this.#options.now() - since < this.#options.patienceMs) {
      return { kind: 'waits', message: error.message, inUse: false, retryMs: unreachableMs };
    }
    this.#waiting.delete(uid);
    const message = `agents of StorageCluster ${cluster} did not forget it (${error.message}); they keep its bytes until they need the room`;
    return { kind: 'abandoned', message };
  }
}

function unlessNotFound(thrown: unknown): void {
  if (HearthError.from(thrown).code !== 'NotFound') throw thrown;
}
