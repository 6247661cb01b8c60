import type { Members } from '../context.ts';
import type { VolumeLeaderRecord, WritableVolumeRecord } from './record.ts';

export interface VolumeStanding {
  /** `Ready`: an agent leads the volume. `Waiting`: calls of its mounts wait, until their deadline. */
  state: 'Ready' | 'Waiting';
  /** Reason for waiting. */
  message: string;
}

/** The state of a volume as any agent sees it in the store. */
export function volumeStanding(
  { logNode }: WritableVolumeRecord,
  leader: VolumeLeaderRecord | undefined,
  members: Pick<Members, 'names' | 'caching'>,
): VolumeStanding {
  if (leader !== undefined) return { state: 'Ready', message: '' };
  if (!members.names().has(logNode)) {
    const message = `the agent on ${logNode} is away, and the disk of that node has the only log of the volume; the volume serves again when that agent is back`;
    return { state: 'Waiting', message };
  }
  if (!members.caching().has(logNode)) {
    return {
      state: 'Waiting',
      message: `the agent on ${logNode}, which has the log of the volume, cannot use its cache`,
    };
  }
  return {
    state: 'Waiting',
    message: `the agent on ${logNode}, which has the log of the volume, does not lead it yet`,
  };
}
