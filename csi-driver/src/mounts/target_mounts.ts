import { CsiError } from '../csi_error.ts';
import { type MountCalls, type MountEntry, mountAt } from './mount_calls.ts';

/** The maximum of stacked mounts, more than a few crashes can leave. */
export const maxMounts = 16;

type TargetCalls = Pick<MountCalls, 'table' | 'resolve' | 'unmount'>;

/** The topmost mount at a target, if any. Throws the errors of `MountCalls.resolve`. */
export async function mountAtTarget(
  mounts: Omit<TargetCalls, 'unmount'>,
  target: string,
  table?: readonly MountEntry[],
): Promise<MountEntry | undefined> {
  const path = await mounts.resolve(target);
  return path === undefined ? undefined : mountAt(table ?? (await mounts.table()), path);
}

/** Unmounts a target, removes its directory, and last its record. */
export async function removeMounted(
  mounts: TargetCalls & Pick<MountCalls, 'removeTarget'>,
  records: { remove: (target: string) => Promise<void> },
  target: string,
): Promise<void> {
  await unmountAll(mounts, target);
  await mounts.removeTarget(target);
  await records.remove(target);
}

/** Throws `INTERNAL` for more than `maxMounts` mounts. */
export async function unmountAll(mounts: TargetCalls, target: string): Promise<void> {
  for (let removed = 0; (await mountAtTarget(mounts, target)) !== undefined; removed++) {
    if (removed === maxMounts) {
      throw new CsiError('INTERNAL', `${target} is still mounted after ${maxMounts} unmounts; look at the node`);
    }
    await mounts.unmount(target);
  }
}
