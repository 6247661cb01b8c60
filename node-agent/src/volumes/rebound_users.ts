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
  const users = [...new Set(rebound.map(userOf))].sort();
  const more = users.length > maxNamed ? ` and ${users.length - maxNamed} more` : '';
  const pods = rebindings(rebound);
  return {
    name: 'volumes',
    ready: false,
    pods: pods.slice(0, maxPods),
    podsLeftOut: Math.max(0, pods.length - maxPods),
    reason: `${users.slice(0, maxNamed).join(', ')}${more} had mounts that lost their agent and their holder at once. Restart them, unless their containers mount the volume with mountPropagation HostToContainer and open their files again`,
  };
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
