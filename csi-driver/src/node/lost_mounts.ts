import { join } from 'node:path';
import { knock } from '@hearth/common';
import { listFolder } from '../list_folder.ts';
import { isBarrier, type MountCalls, mountAtTarget } from '../mounts/index.ts';
import { type CheckParts, PeriodicCheck } from '../periodic_check.ts';
import type { PublishedRecords } from './published_records.ts';
import { summary } from './rebinding.ts';

export interface LostMountsParts extends CheckParts {
  /** Contains a directory for each cluster: `<state>/<cluster>/run/agent.sock` and `holder.sock`. */
  stateDirectory: string;
  records: Pick<PublishedRecords, 'all'>;
  mounts: Pick<MountCalls, 'table' | 'resolve' | 'isDead'>;
  /** See `Publications.bar`; holds the lock of the target. */
  bar: (cluster: string, target: string, device: string, at: Date) => Promise<boolean>;
}

const knockMs = 1000;

/**
 * FUSE mounts die when agent and holder of a node end together. Bars dead mounts before a container restarts with one.
 * Asks mounts only while nobody listens on either socket, since a living holder's mount blocks until the next agent.
 */
export class LostMounts extends PeriodicCheck {
  readonly #parts: LostMountsParts;
  /** All mounts at the last check that left nothing to do, by cluster. */
  readonly #seen = new Map<string, string>();

  constructor(parts: LostMountsParts) {
    super(parts, 'a dead mount of a volume is not barred yet');
    this.#parts = parts;
  }

  protected async repair(): Promise<void> {
    const { stateDirectory } = this.#parts;
    for (const cluster of await listFolder(stateDirectory)) {
      const run = join(stateDirectory, cluster, 'run');
      if ((await isDeserted(join(run, 'holder.sock'))) && (await isDeserted(join(run, 'agent.sock')))) {
        await this.#barDead(cluster);
      } else {
        this.#seen.delete(cluster);
      }
    }
  }

  async #barDead(cluster: string): Promise<void> {
    const { mounts, records, bar } = this.#parts;
    const table = await mounts.table();
    const now = summary(table);
    if (this.#seen.get(cluster) === now) return;
    const at = this.clock.date();
    const dead = new Map<string, boolean>();
    for (const stored of await records.all()) {
      const { record } = stored;
      if (stored.cluster !== cluster || record === undefined || record.dataPath === 'view') continue;
      const present = await mountAtTarget(mounts, record.target, table);
      if (present === undefined || isBarrier(present)) continue;
      const isDead = dead.get(present.device) ?? (await mounts.isDead(present.mountPoint));
      dead.set(present.device, isDead);
      if (isDead) await bar(cluster, record.target, present.device, at);
    }
    // Living mounts, such as those of an agent about to end, need another check.
    if (![...dead.values()].includes(false)) this.#seen.set(cluster, now);
  }
}

/** The kernel refuses connections to a holder's SOCK_SEQPACKET with EPROTOTYPE, unseen by the holder. */
async function isDeserted(path: string): Promise<boolean> {
  const reason = await knock(path, knockMs);
  return reason === 'ECONNREFUSED' || reason === 'ENOENT';
}
