import type { Capability } from '../capabilities/index.ts';
import { type PublishedRecord, userOf } from './published_record.ts';

/** Users that a sentence names. */
const mostNamed = 3;
/** Pods that whoever asks is told of: a node has some hundred. */
const mostPods = 256;

/** The capability `volumes`: who has been given a mount that died since, and was bound anew, by their records. */
export function volumesCapability(records: readonly PublishedRecord[]): Capability {
  const rebound = records.filter((record) => record.reboundAt !== undefined);
  if (rebound.length === 0) return { name: 'volumes', ready: true, reason: '' };
  const users = [...new Set(rebound.map(userOf))].sort();
  const more = users.length > mostNamed ? ` and ${users.length - mostNamed} more` : '';
  return {
    name: 'volumes',
    ready: false,
    pods: rebound.flatMap(({ pod }) => (pod === undefined ? [] : [pod])).slice(0, mostPods),
    reason: `${users.slice(0, mostNamed).join(', ')}${more} had mounts that lost their agent and their holder at once. Restart them, unless their containers mount the volume with mountPropagation HostToContainer and open their files anew`,
  };
}
