import { type FSWatcher, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
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
  /** By folders of pods with a volume that cannot be mapped. Undefined: polled. */
  readonly #watchers = new Map<string, FSWatcher | undefined>();
  /** All mounts at the last check that left nothing to do but wait. */
  #seen = '';

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
    for (const watcher of this.#watchers.values()) watcher?.close();
  }

  protected async repair(): Promise<void> {
    const { mounts, records, makeMappable } = this.#parts;
    const table = await mounts.table();
    const now = summary(table);
    const mapped = await Promise.all([...this.#watchers.keys()].map(hasNamespace));
    if (now === this.#seen && !mapped.includes(true)) return;
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
      watcher?.close();
      this.#watchers.delete(folder);
    }
    this.#seen = failure === undefined ? now : '';
    if (failure !== undefined) throw failure;
  }

  #watch(folder: string): void {
    if (this.#watchers.get(folder) !== undefined) return;
    this.#watchers.set(folder, undefined);
    try {
      const watcher = watch(folder, (_, name) => {
        if (name === mappingsFile) this.look();
      });
      watcher.on('error', () => {
        watcher.close();
        this.#watchers.set(folder, undefined);
      });
      this.#watchers.set(folder, watcher);
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
  return (await stat(join(folder, mappingsFile)).catch(() => undefined)) !== undefined;
}
