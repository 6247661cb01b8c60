import type { VolumeLogPosition } from '@hearth/engine';
import type { WritableVolumeRecord } from './record.ts';

/** An agent that may lead a volume after its leader. */
export interface Candidate {
  node: string;
  installation: string;
}

/** True: the store says that this agent has the log, or a copy of it. */
export function mayLead(
  { logInstallation, followers }: WritableVolumeRecord,
  { node, installation }: Candidate,
): boolean {
  return logInstallation === installation || followers.includes(node);
}

export interface Election {
  /** The followers of the new leader; undefined: this agent must not lead now, for `reason`. */
  followers?: string[];
  reason: string;
}

/**
 * The longest log among those that answered leads: that of the last leader, or else the first node by name, among equal
 * ones. Followers that did not answer leave the list, because their logs may be longer than the new leader's.
 */
export function elect(record: WritableVolumeRecord, own: Candidate, positions: readonly VolumeLogPosition[]): Election {
  const preferred = record.logInstallation === own.installation ? own.node : record.logNode;
  const rank = (one: VolumeLogPosition, other: VolumeLogPosition) =>
    compare(other.epoch, one.epoch) ||
    compare(other.record, one.record) ||
    Number(other.node === preferred) - Number(one.node === preferred) ||
    compare(one.node, other.node);
  const [best] = [...positions].sort(rank);
  if (!positions.some(({ node }) => node === own.node)) {
    return { reason: 'the log of the volume on this node cannot be read' };
  }
  if (best === undefined || best.record === 0n)
    return { reason: 'no log of the volume that can be reached has records' };
  if (best.node !== own.node) return { reason: `the agent on ${best.node} has the longest log of the volume` };
  const answered = new Set(positions.map(({ node }) => node));
  return { followers: record.followers.filter((node) => node !== own.node && answered.has(node)), reason: '' };
}

function compare<T>(one: T, other: T): number {
  return one === other ? 0 : one < other ? -1 : 1;
}
