import type { Capability, PodReference } from '../capabilities/index.ts';
import { type PublishedRecord, userOf } from './published_record.ts';

/** Users that a sentence names. */
const maxNamed = 3;
/** Rebindings of pods that are reported to whoever asks: a node has some hundred pods. */
const maxPods = 256;

/**
 * The capability `volumes`: who has been given a mount that died since, and was bound again, by their records. Each pod is
 * named once for each time that this happened, the newest first; the same records, in any order, give the same.
 */
export function volumesCapability(records: readonly PublishedRecord[]): Capability {
  const rebound = records.filter((record) => record.reboundAt !== undefined);
  if (rebound.length === 0) return { name: 'volumes', ready: true, reason: '' };
  const pods = rebindings(rebound);
  return {
    name: 'volumes',
    ready: false,
    pods: pods.slice(0, maxPods),
    podsLeftOut: Math.max(0, pods.length - maxPods),
    reason: `${namedUsers(rebound)} had mounts that lost their agent and their holder at once. Restart them, unless their containers mount the volume with mountPropagation HostToContainer and open their files again`,
  };
}

/**
 * The capability `lost-volumes`: who has a mount now whose agent and holder are gone. Nothing while there are none.
 * `isServed`: whether this agent has the mount that a record is about; one that it has not made again yet is dead.
 */
export function lostVolumes(
  records: readonly PublishedRecord[],
  isServed: (record: PublishedRecord) => boolean,
): Capability[] {
  const lost = records.filter(
    (record) =>
      record.lostAt !== undefined || (record.dataPath !== undefined && record.dataPath !== 'view' && !isServed(record)),
  );
  if (lost.length === 0) return [];
  const users = namedUsers(lost);
  const reason = `${users} cannot read and start no container: their mounts lost their agent and their holder at once. The agent mounts them again as soon as it can read their files; its log names the obstacle`;
  return [{ name: 'lost-volumes', ready: false, reason }];
}

function namedUsers(records: readonly PublishedRecord[]): string {
  const users = [...new Set(records.map(userOf))].sort();
  const more = users.length > maxNamed ? ` and ${users.length - maxNamed} more` : '';
  return `${users.slice(0, maxNamed).join(', ')}${more}`;
}

/** Volumes of a pod that were bound again together count as one. */
function rebindings(rebound: readonly PublishedRecord[]): PodReference[] {
  const found = new Map<string, PodReference>();
  for (const { pod, reboundAt = '', reboundBefore = [] } of rebound) {
    if (pod === undefined) continue;
    for (const time of [...reboundBefore, reboundAt]) {
      found.set(sortKey({ ...pod, reboundAt: time }), { ...pod, reboundAt: time });
    }
  }
  const keys = [...found.keys()].sort();
  // RFC 3339 in UTC sorts by time, and the newest is the last.
  return keys.reverse().flatMap((key) => found.get(key) ?? []);
}

const sortKey = ({ reboundAt, namespace, name, uid }: PodReference) => [reboundAt, namespace, name, uid].join('\n');
