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
  { logNode, followers }: WritableVolumeRecord,
  leader: VolumeLeaderRecord | undefined,
  members: Pick<Members, 'names' | 'caching'>,
): VolumeStanding {
  if (leader !== undefined) return { state: 'Ready', message: '' };
  return { state: 'Waiting', message: reasonToWait(logNode, followers, members) };
}

function reasonToWait(logNode: string, followers: readonly string[], members: Pick<Members, 'names' | 'caching'>) {
  const successors = followers.filter((node) => members.caching().has(node));
  if (!members.names().has(logNode)) {
    if (successors.length > 0) return `the agent on ${logNode} is away; ${alternatives(successors)} leads next`;
    if (followers.length > 0) {
      return `the agents on ${[logNode, ...followers].join(', ')}, which have the logs of the volume, are away; the volume serves again when one of them is back`;
    }
    return `the agent on ${logNode} is away, and the disk of that node has the only log of the volume; the volume serves again when that agent is back`;
  }
  if (!members.caching().has(logNode)) {
    const next = successors.length > 0 ? `; ${alternatives(successors)} leads next` : '';
    return `the agent on ${logNode}, which has the log of the volume, cannot use its cache${next}`;
  }
  return `the agent on ${logNode}, which has the log of the volume, does not lead it yet`;
}

function alternatives(nodes: readonly string[]): string {
  return `the agent on ${nodes.join(' or ')}`;
}
