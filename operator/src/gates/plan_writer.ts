import { HearthError } from '@hearth/common';
import { type Clock, type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';
import { isOfGate, nodesChange } from './group_preload.ts';
import { refusals } from './release.ts';

/** While no pod waits: the nodes follow pods as they are bound, of which a large group has many. Per node, and at least, ms. */
const msPerNode = 10;
const minMs = 1_000;

/** Writes the nodes of plans into the specs of their CachePreloads, for one term of the leader. Keys are theirs. */
export class PlanWriter {
  readonly #api: Pick<KubernetesClient, 'patch'>;
  readonly #clock: Clock;
  /** Why the API server does not take the nodes of a plan. */
  readonly #refused = new Map<string, string>();
  /** Clock time of the last write. */
  readonly #writtenAt = new Map<string, number>();

  constructor(api: Pick<KubernetesClient, 'patch'>, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /** As the end of a sentence, while it stands. Undefined: its nodes are written, or were not tried. */
  refusal(key: string): string | undefined {
    return this.#refused.get(key);
  }

  /**
   * At once while pods wait for the bytes. Gives in how many milliseconds it has to be called again, for what is not written
   * now. Errors of the API server other than refusals.
   */
  async write(
    key: string,
    present: CachePreload | undefined,
    nodes: readonly string[] | undefined,
    { waiting, signal }: { waiting: boolean; signal: AbortSignal },
  ): Promise<number | undefined> {
    if (present === undefined) this.forget(key);
    if (present === undefined || nodes === undefined || !isOfGate(present)) return undefined;
    const { name, namespace, deletionTimestamp } = present.metadata;
    const change = deletionTimestamp === undefined ? nodesChange(present, nodes, { inOrder: waiting }) : undefined;
    if (change === undefined) return undefined;
    const now = this.#clock.now();
    const wait = (this.#writtenAt.get(key) ?? Number.NEGATIVE_INFINITY) + pauseMs(nodes) - now;
    if (!waiting && wait > 0) return wait;
    try {
      const written = await this.#api.patch(kinds.CachePreload, name, namespace, change, { kind: 'merge', signal });
      this.#writtenAt.set(key, now);
      // An older CRD silently prunes this field.
      if (written.spec.placement.gatedPods?.nodes !== undefined) this.#refused.delete(key);
      else this.#refused.set(key, 'the definition of CachePreloads is of an earlier release; install crds again');
    } catch (thrown) {
      const { code, message } = HearthError.from(thrown);
      if (code === 'NotFound') return undefined;
      if (!refusals.has(code)) throw thrown;
      this.#refused.set(key, message);
    }
    return undefined;
  }

  /** The group is gone. */
  forget(key: string): void {
    this.#refused.delete(key);
    this.#writtenAt.delete(key);
  }
}

const pauseMs = (nodes: readonly string[]): number => Math.max(minMs, nodes.length * msPerNode);
