import type { LimitStatistics, Statistics } from '@hearth/engine';
import type { Capability } from '../capabilities/index.ts';
import { formatSize } from '../config/index.ts';

/** Limits with one-word names; the limit on bytes to peers equals the limit on bytes from peers. */
const names: Partial<Record<LimitStatistics['what'], string>> = {
  origin: 'origins',
  'from-peers': 'other nodes',
  disk: 'the disks',
};

/** The node's limits as a capability; undefined without limits. Changes with the configuration only. */
export function limitsCapability(limits: Statistics['limits']): Capability[] {
  const clauses = limits.flatMap(({ what, total, warm }) => {
    const name = names[what];
    if (name === undefined || (total === 0n && warm === 0n)) return [];
    const parts = [total === 0n ? '' : `${formatSize(total)}/s`, warm === 0n ? '' : `warm work ${formatSize(warm)}/s`];
    return [`${name}: ${parts.filter((part) => part !== '').join(', of which ')}`];
  });
  return clauses.length === 0 ? [] : [{ name: 'limits', ready: true, reason: clauses.join('; ') }];
}
