import type { VolumeFollower, VolumeStatistics } from '@hearth/engine';
import { type MetricRow, row, type Seen, type ValueRow } from './metric_row.ts';

type Operation = VolumeStatistics['operations'][number];

const ofVolumes =
  (read: (volume: VolumeStatistics) => bigint | number | boolean): ValueRow['read'] =>
  (seen) =>
    named(seen).map(([name, volume]) => [[name], Number(read(volume))]);

const ofLeaders =
  (read: (volume: VolumeStatistics) => bigint): ValueRow['read'] =>
  (seen) =>
    named(seen).flatMap(([name, volume]) => (volume.leads ? [[[name], Number(read(volume))]] : []));

const ofFollowers =
  (read: (follower: VolumeFollower) => bigint | number): ValueRow['read'] =>
  (seen) =>
    named(seen).flatMap(([name, { followers }]) =>
      followers.map((follower): [string[], number] => [[name, follower.node], Number(read(follower))]),
    );

const ofOperations =
  (read: (operation: Operation) => bigint | number): ValueRow['read'] =>
  (seen) =>
    named(seen).flatMap(([name, { operations }]) =>
      operations.map((operation): [string[], number] => [[name, operation.name], Number(read(operation))]),
    );

/** Writable volumes. */
export const volumeRows: readonly MetricRow[] = [
  row(
    'gauge',
    'volume_leader',
    '1 while this agent leads the writable volume.',
    ofVolumes((volume) => volume.leads),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_epoch',
    'Term of this agent as the leader of a writable volume.',
    ofLeaders((volume) => volume.epoch),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_log_failed',
    '1 while the log of a writable volume cannot be written.',
    ofVolumes((volume) => volume.error !== ''),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_bytes',
    'Bytes of published files, at the leader.',
    ofLeaders((volume) => volume.bytes),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_files',
    'Files, folders and links of a writable volume, at the leader.',
    ofLeaders((volume) => volume.inodes),
    ['volume'],
  ),
  row(
    'counter',
    'volume_evicted_files_total',
    'Files that went because the volume was full, at the leader since its term began.',
    ofLeaders((volume) => volume.evictedFiles),
    ['volume'],
  ),
  row(
    'counter',
    'volume_evicted_young_files_total',
    'Of these, files that had changed less than an hour before.',
    ofLeaders((volume) => volume.evictedYoungFiles),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_followers',
    'Nodes that may lead when the leader is lost, at the leader; they lack a second of changes at most.',
    ofLeaders(({ followers }) => BigInt(followers.filter(({ listed }) => listed).length)),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_follower_lag_records',
    "Records of the leader's log that a follower lacks.",
    ofFollowers(({ lag }) => lag),
    ['volume', 'follower'],
  ),
  row(
    'gauge',
    'volume_follower_lag_seconds',
    'Time since the first of these records.',
    ofFollowers(({ lagSeconds }) => lagSeconds),
    ['volume', 'follower'],
  ),
  row(
    'counter',
    'volume_followers_dropped_total',
    'Followers that the leader took off its list because they were late, since its term began.',
    ofLeaders(({ followersDropped }) => followersDropped),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_sessions',
    'Session files of this node: files that are open for writing, or not sealed yet.',
    ofVolumes((volume) => volume.sessions),
    ['volume'],
  ),
  row(
    'gauge',
    'volume_session_bytes',
    'Bytes of session files of this node.',
    ofVolumes((volume) => volume.sessionBytes),
    ['volume'],
  ),
  row(
    'counter',
    'volume_overdue_requests_total',
    "Requests of programs that this agent ended (ETIMEDOUT) because the volume's deadline was over.",
    ofVolumes((volume) => volume.overdueRequests),
    ['volume'],
  ),
  row(
    'counter',
    'volume_unserved_requests_total',
    "Requests of programs that the mount holder ended (EIO) because no agent had served the mount for the volume's deadline.",
    ofVolumes((volume) => volume.unservedRequests),
    ['volume'],
  ),
  row(
    'counter',
    'volume_operations_total',
    "Operations of this node's mounts of a writable volume.",
    ofOperations((operation) => operation.count),
    ['volume', 'operation'],
  ),
  row(
    'counter',
    'volume_operation_failures_total',
    'Operations that ended with an error other than the absence of a name.',
    ofOperations((operation) => operation.failed),
    ['volume', 'operation'],
  ),
  row(
    'counter',
    'volume_operation_seconds_total',
    'Time of these operations until their answers.',
    ofOperations((operation) => operation.seconds),
    ['volume', 'operation'],
  ),
];

/** The volumes that the engine and this agent know, by name. */
function named({ volumes, agent }: Seen): [name: string, volume: VolumeStatistics][] {
  const names = new Map(agent.writableVolumeTables.list().map(({ id, name }) => [id, name]));
  return volumes.flatMap((volume): [string, VolumeStatistics][] => {
    const name = names.get(volume.id);
    return name === undefined ? [] : [[name, volume]];
  });
}
