import { HearthError, ignoring } from '@hearth/common';
import { type Dataset, registeredName } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import { namedSecrets } from './named_secrets.ts';
import { noCredentials } from './registration.ts';

export interface RemovalOptions {
  agents: Pick<Agents, 'get'>;
  /** Names of all nodes: mounts of deleted nodes keep no Dataset. */
  nodes(): string[];
  now(): number;
  /** A deletion ends after this time without agents, ms. */
  timeoutMs: number;
  /** The same while agents report a use, such as mounts of a lost node. Default: an hour. */
  inUseTimeoutMs?: number;
}

export type RemovalResult =
  | { kind: 'removed' }
  /** The timeout passed without an answer or while in use. */
  | { kind: 'abandoned'; message: string }
  | { kind: 'waits'; message: string; inUse: boolean; retryMs: number };

const callMs = 60_000;
/** The kubelet unmounts volumes shortly after the deletion of a pod without grace. */
const firstInUseMs = 2_000;
const inUseMs = 10_000;
const soonMs = 30_000;
const unreachableMs = 15_000;
const longestInUseMs = 3_600_000;

export class Removal {
  readonly #options: RemovalOptions;
  readonly #waiting = new Map<string, number>();
  /** Since when agents report a use, by uid. */
  readonly #inUse = new Map<string, number>();

  constructor(options: RemovalOptions) {
    this.#options = options;
  }

  /** Idempotent. Agents drop all bytes that no other dataset shares. Does not throw. */
  async remove(dataset: Dataset, cluster: string, signal: AbortSignal): Promise<RemovalResult> {
    const { metadata } = dataset;
    const uid = metadata.uid ?? '';
    const name = registeredName(metadata.namespace ?? '', metadata.name);
    try {
      await this.#removeAt(cluster, name, namedSecrets(dataset.spec).length > 0, signal);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (signal.aborted) return { kind: 'waits', message: 'the operator ends', inUse: false, retryMs: 0 };
      if (error.code === 'InUse') {
        this.#waiting.delete(uid);
        return this.#stillInUse(uid, cluster, error);
      }
      return this.#outOfReach(uid, cluster, error);
    }
    this.#waiting.delete(uid);
    this.#inUse.delete(uid);
    return { kind: 'removed' };
  }

  async #removeAt(cluster: string, name: string, forgetCredentials: boolean, signal: AbortSignal): Promise<void> {
    const agents = this.#options.agents.get(cluster);
    if (agents === undefined)
      throw new HearthError('Unavailable', `the operator knows no agent of StorageCluster ${cluster} yet`);
    const options = { signal, deadlineMs: callMs };
    try {
      await agents.call('removeDataset', { name, evict: true, nodes: [] }, options).catch(ignoring('NotFound'));
    } catch (thrown) {
      if (HearthError.from(thrown).code !== 'InUse') throw thrown;
      // A deleted node may hold the use, which agents alone cannot know.
      const request = { name, evict: true, nodes: this.#options.nodes() };
      await agents.call('removeDataset', request, options).catch(ignoring('NotFound'));
    }
    if (!forgetCredentials) return;
    await agents
      .call('setCredentials', { dataset: name, credentials: noCredentials }, options)
      .catch(ignoring('NotFound'));
  }

  /** Called only when nothing in Kubernetes uses the Dataset. Agents keep bytes in use. */
  #stillInUse(uid: string, cluster: string, error: HearthError): RemovalResult {
    const { inUseTimeoutMs = longestInUseMs } = this.#options;
    if (!this.#isOver(this.#inUse, uid, inUseTimeoutMs)) {
      const since = this.#options.now() - (this.#inUse.get(uid) ?? 0);
      return { kind: 'waits', message: error.message, inUse: true, retryMs: since < soonMs ? firstInUseMs : inUseMs };
    }
    const message = `agents of StorageCluster ${cluster} still report the Dataset as in use (${error.message}); they keep serving it, and cache its bytes until they need the space`;
    return { kind: 'abandoned', message };
  }

  #outOfReach(uid: string, cluster: string, error: HearthError): RemovalResult {
    if (!this.#isOver(this.#waiting, uid, this.#options.timeoutMs)) {
      return { kind: 'waits', message: error.message, inUse: false, retryMs: unreachableMs };
    }
    const message = `agents of StorageCluster ${cluster} did not forget the Dataset (${error.message}); they cache its bytes until they need the space`;
    return { kind: 'abandoned', message };
  }

  /** True when the condition has held for this time; then forgets the Dataset. */
  #isOver(since: Map<string, number>, uid: string, timeoutMs: number): boolean {
    const now = this.#options.now();
    const began = since.get(uid) ?? now;
    since.set(uid, began);
    if (now - began < timeoutMs) return false;
    this.#waiting.delete(uid);
    this.#inUse.delete(uid);
    return true;
  }
}
