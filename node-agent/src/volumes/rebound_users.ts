import type { Capability, PodReference } from '../capabilities/index.ts';
import { type PublishedRecord, userOf } from './published_record.ts';

/** Maximum number of users named in a sentence. */
const maxNamed = 3;
/** Maximum number of rebindings reported; a node runs some hundred pods. */
const maxPods = 256;

/**
 * The capability `volumes`: pods whose mounts died and were bound again, from their records. Names each pod once for
 * each rebinding, newest first. The result does not depend on the order of the records.
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
 * The capability `lost-volumes`: pods whose mount has neither an agent nor a holder; none while there are no such pods.
 * `isServed` tells whether this agent serves a record's mount; a mount not yet made again is dead.
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

/** Counts volumes of a pod that were bound again together as one rebinding. */
function rebindings(rebound: readonly PublishedRecord[]): PodReference[] {
  const found = new Map<string, PodReference>();
  for (const { pod, reboundAt = '', reboundBefore = [] } of rebound) {
    if (pod === undefined) continue;
    for (const time of [...reboundBefore, reboundAt]) {
      found.set(sortKey({ ...pod, reboundAt: time }), { ...pod, reboundAt: time });
    }
  }
  const keys = [...found.keys()].sort();
  // RFC 3339 times in UTC sort chronologically; the newest is last.
  return keys.reverse().flatMap((key) => found.get(key) ?? []);
}

const sortKey = ({ reboundAt, namespace, name, uid }: PodReference) => [reboundAt, namespace, name, uid].join('\n');
