import type { Logger } from '@hearth/common';
import type { MountCalls } from '../mounts/index.ts';
import { publishedId } from './published_record.ts';
import type { PublishedRecords } from './published_records.ts';

export interface Reconciled {
  kept: number;
  removed: number;
}

/**
 * Once at the start, before any call is served: a record without a mount is what a crash left between two steps, or
 * a reboot of the node, which takes all mounts and no records. It is removed, so that it pins nothing; the kubelet
 * publishes again what pods still need. Records with a mount stay. Target folders are the kubelet's to unpublish.
 */
export async function reconcilePublished(
  records: PublishedRecords,
  mounts: MountCalls,
  logger: Logger,
): Promise<Reconciled> {
  await records.removePartial();
  const points = new Set((await mounts.table()).map((entry) => entry.mountPoint));
  // A file that is no record is known by its name alone.
  const mountedIds = new Set([...points].map(publishedId));
  const outcome: Reconciled = { kept: 0, removed: 0 };
  for (const { cluster, id, record } of await records.all()) {
    const path = record === undefined ? undefined : await resolved(mounts, record.target);
    const mounted = path === undefined ? mountedIds.has(id) : points.has(path);
    if (mounted) {
      outcome.kept++;
      continue;
    }
    logger.info('a record of a published volume without its mount is removed', {
      cluster,
      volume: record?.volume,
      target: record?.target,
    });
    await records.removeFile(cluster, id);
    outcome.removed++;
  }
  return outcome;
}

/** Undefined also for a target that lies elsewhere now, as when the kubelet's folder was moved. */
async function resolved(mounts: MountCalls, target: string): Promise<string | undefined> {
  return await mounts.resolve(target).catch(() => undefined);
}
