import { type FSWatcher, watch } from 'node:fs';
import { access } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { HearthError } from '@hearth/common';
import { isMappable, type MountCalls, mountAtTarget } from '../mounts/index.ts';
import { type CheckParts, PeriodicCheck } from '../periodic_check.ts';
import type { PublishedRecords } from './published_records.ts';
import { summary } from './rebinding.ts';

export interface PodUsersParts extends CheckParts {
  kubeletDirectory: string;
  records: Pick<PublishedRecords, 'all'>;
  mounts: Pick<MountCalls, 'table' | 'resolve'>;
  /** See `Publications.makeMappable`; holds the lock of the target. */
  makeMappable: (cluster: string, target: string) => Promise<unknown>;
}

/** In the folder of a pod with `hostUsers: false`: the ids that the kubelet gave it (pkg/kubelet/userns). */
const mappingsFile = 'userns';

/**
 * Pods with a user namespace of their own. CSI says nothing of them, and the kubelet writes `userns` after it has
 * mounted the volumes, before it asks for the pod's sandbox. So volumes whose ids no container runtime can map are
 * bound again as soon as the file appears. A container that comes first fails to start, and the kubelet starts it again.
 */
export class PodUsers extends PeriodicCheck {
  readonly #parts: PodUsersParts;
  /** Folders of pods with a volume that cannot be mapped. */
  #waiting: ReadonlySet<string> = new Set();
  readonly #watchers = new Map<string, FSWatcher>();
  /** All mounts at the last check that left nothing to do but wait. */
  #seen = '';
  #again = false;

  constructor(parts: PodUsersParts) {
    super(parts, 'a volume is not bound again yet for a pod with a user namespace');
    this.#parts = parts;
  }

  async mapsIds(target: string): Promise<boolean> {
    const folder = this.#podFolder(target);
    return folder !== undefined && (await hasNamespace(folder));
  }

  override async close(): Promise<void> {
    await super.close();
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  protected async repair(): Promise<void> {
    let failure: unknown;
    do {
      this.#again = false;
      failure = await this.#bindAgain();
    } while (this.#again);
    if (failure !== undefined) throw failure;
  }

  /** Checks soon, also while a check runs. */
  override look(): void {
    this.#again = true;
    super.look();
  }

  /** Returns the first failure. */
  async #bindAgain(): Promise<unknown> {
    const { mounts, records, makeMappable } = this.#parts;
    const table = await mounts.table();
    const now = summary(table);
    if (now === this.#seen && !(await this.#hasCome())) return undefined;
    const waiting = new Set<string>();
    let failure: unknown;
    for (const { cluster, record } of await records.all()) {
      const folder = record === undefined ? undefined : this.#podFolder(record.target);
      if (record === undefined || folder === undefined) continue;
      const present = await mountAtTarget(mounts, record.target, table);
      if (present === undefined || isMappable(present)) continue;
      waiting.add(folder);
      // Before the look, which could miss the file otherwise.
      this.#watch(folder);
      try {
        if (await hasNamespace(folder)) await makeMappable(cluster, record.target);
      } catch (thrown) {
        failure ??= thrown;
      }
    }
    for (const [folder, watcher] of this.#watchers) {
      if (waiting.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    this.#waiting = waiting;
    this.#seen = failure === undefined ? now : '';
    return failure;
  }

  async #hasCome(): Promise<boolean> {
    for (const folder of this.#waiting) if (await hasNamespace(folder)) return true;
    return false;
  }

  #watch(folder: string): void {
    if (this.#watchers.has(folder)) return;
    try {
      const watcher = watch(folder, (_, name) => {
        if (name === mappingsFile) this.look();
      });
      this.#watchers.set(folder, watcher);
      watcher.on('error', () => {
        watcher.close();
        this.#watchers.delete(folder);
      });
    } catch (thrown) {
      // Without inotify instances the periodic check finds the file later.
      const error = HearthError.from(thrown);
      this.#parts.logger.warn('failed to watch the folder of a pod; polling it', { folder, error });
    }
  }

  /** The kubelet's folder of the pod: `<kubelet>/pods/<uid>`; undefined for targets of other publishers. */
  #podFolder(target: string): string | undefined {
    const { kubeletDirectory } = this.#parts;
    const [pods, uid] = relative(kubeletDirectory, target).split('/');
    return pods === 'pods' && uid !== undefined ? join(kubeletDirectory, pods, uid) : undefined;
  }
}

async function hasNamespace(folder: string): Promise<boolean> {
  return await access(join(folder, mappingsFile)).then(
    () => true,
    () => false,
  );
}
