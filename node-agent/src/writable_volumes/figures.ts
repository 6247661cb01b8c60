import type { Engine } from '@hearth/engine';
import type { NodeVolume } from '../statistics/index.ts';
import type { VolumeReconciler } from './reconciler.ts';
import type { WritableVolumeTables } from './tables.ts';

/** The volumes about which this agent has something to say: those whose log it has, and those that it writes. */
export async function volumeFigures(
  engine: Engine,
  tables: WritableVolumeTables,
  reconciler: VolumeReconciler,
): Promise<NodeVolume[]> {
  if (tables.list().length === 0) return [];
  return (await engine.volumeStatistics()).flatMap((one): NodeVolume[] => {
    const { id, leads, bytes, inodes: files, sessions, sessionBytes, evictedFiles, evictedYoungFiles } = one;
    const error = one.error || reconciler.reasonOf(id);
    if (!leads && error === '' && sessions === 0) return [];
    const followers = one.followers.map(({ node, listed, lag, error }) => ({ node, listed, lag, error }));
    return [{ id, leads, error, bytes, files, sessions, sessionBytes, evictedFiles, evictedYoungFiles, followers }];
  });
}
