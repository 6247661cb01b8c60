import { CsiError } from '../csi_error.ts';
import { type MountCalls, type MountEntry, mountAt } from './mount_calls.ts';

/** Mounts one over another at a target: more than a few crashes can have left. */
export const maxMounts = 16;

type TargetCalls = Pick<MountCalls, 'table' | 'resolve' | 'unmount'>;

/** The visible mount at a target; undefined where there is none. Errors as those of `MountCalls.resolve`. */
export async function mountAtTarget(
  mounts: Omit<TargetCalls, 'unmount'>,
  target: string,
  table?: readonly MountEntry[],
): Promise<MountEntry | undefined> {
  const path = await mounts.resolve(target);
  return path === undefined ? undefined : mountAt(table ?? (await mounts.table()), path);
}

/** Unmounts a target, removes its folder, and then its record, which is there for as long as anything else is. */
export async function removeMounted(
  mounts: TargetCalls & Pick<MountCalls, 'removeTarget'>,
  records: { remove: (target: string) => Promise<void> },
  target: string,
): Promise<void> {
  await unmountAll(mounts, target);
  await mounts.removeTarget(target);
  await records.remove(target);
}

/** Unmounts all mounts at a target. `INTERNAL` when there are more than `maxMounts`. */
export async function unmountAll(mounts: TargetCalls, target: string): Promise<void> {
  for (let removed = 0; (await mountAtTarget(mounts, target)) !== undefined; removed++) {
    if (removed === maxMounts) {
      throw new CsiError('INTERNAL', `${target} is still mounted after ${maxMounts} unmounts; look at the node`);
    }
    await mounts.unmount(target);
  }
}
