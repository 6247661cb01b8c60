import type { WritableVolume } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Members } from '../context.ts';
import type { NodeStatistics } from '../statistics/index.ts';
import { type VolumeLeaderRecord, volumeStanding, type WritableVolumeRecord } from '../writable_volumes/index.ts';

/** State of a volume beyond its record. */
export interface VolumeSight {
  leader: VolumeLeaderRecord | undefined;
  members: Pick<Members, 'names' | 'caching'>;
  nodes: readonly NodeStatistics[];
}

export function writableVolumeMessage(record: WritableVolumeRecord, sight: VolumeSight): WritableVolume {
  const { leader, members, nodes } = sight;
  const figures = nodes.flatMap(({ node, volumes }) =>
    volumes.filter(({ id }) => id === record.id).map((volume) => ({ node, ...volume })),
  );
  const atLeader = figures.find(({ node }) => node === leader?.node);
  const { state, message } = volumeStanding(record, leader, members);
  const { name, id, kind, maxBytes, maxFiles, logNode } = record;
  return {
    name,
    id,
    kind,
    maxBytes,
    maxFiles,
    deadlineMs: BigInt(record.deadlineMs),
    createdAt: new Date(record.createdAt).toISOString(),
    state,
    message: figures.find(({ error }) => error !== '')?.error ?? message,
    logNode,
    leader: leader?.node ?? '',
    epoch: BigInt(record.epoch),
    usedBytes: atLeader?.bytes ?? 0n,
    files: atLeader?.files ?? 0n,
    evictedFiles: atLeader?.evictedFiles ?? 0n,
    evictedYoungFiles: atLeader?.evictedYoungFiles ?? 0n,
    followers: atLeader?.followers ?? [],
    nodes: figures
      .filter(({ sessions }) => sessions > 0)
      .map(({ node, sessions, sessionBytes }) => ({ node, sessions, sessionBytes })),
  };
}
