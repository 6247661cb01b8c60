import type { Dataset as AgentDataset, DatasetResidency } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CachePreload } from '@hearth/common/resources';
import type { ObservedPreload } from './observation.ts';
import { bytesOf, hasEnded, jobPrefix, pinOwner, type Wanted } from './wanted.ts';

/** Undefined for other revisions, and when globs choose files, since agents report whole Datasets. */
export function reportedResident(node: string, { agents }: ObservedPreload, wanted: Wanted): number | undefined {
  const dataset = agents?.datasets.get(wanted.registered);
  if (wanted.paths.length > 0 || dataset?.manifest !== wanted.manifest) return undefined;
  return Number(rowOf(dataset, node)?.residentBytes ?? 0n);
}

/** Indexes reports with thousands of rows once. */
const rows = new WeakMap<readonly DatasetResidency[], ReadonlyMap<string, DatasetResidency>>();

function rowOf({ residency }: Pick<AgentDataset, 'residency'>, node: string): DatasetResidency | undefined {
  let byNode = rows.get(residency);
  if (byNode === undefined) {
    byNode = new Map(residency.map((row) => [row.node, row]));
    rows.set(residency, byNode);
  }
  return byNode.get(node);
}

/** Resident bytes of all wanted Datasets, whatever their revision. */
export function residentOf(node: string, observed: ObservedPreload, wanted: readonly Wanted[]): number {
  return wanted.reduce((sum, one) => {
    const dataset = observed.agents?.datasets.get(one.registered);
    const reported = dataset && rowOf(dataset, node);
    return sum + Math.min(bytesOf(one), Number(reported?.residentBytes ?? 0n));
  }, 0);
}

/**
 * Pure. Bytes that the budget of a node lacks after the eviction of every unpinned byte; 0 for Datasets that the node
 * has begun. Agents themselves report a full disk.
 */
export function missingRoom(
  node: string,
  preload: CachePreload,
  observed: ObservedPreload,
  wanted: readonly Wanted[],
): number {
  const status = observed.agents?.nodes.get(node);
  if (status === undefined) return 0;
  const { budgetBytes, pinnedBytes } = status;
  const uid = preload.metadata.uid ?? '';
  let needed = 0;
  for (const one of wanted) {
    const begun = observed.jobs.some(
      (job) => job.name.startsWith(jobPrefix(uid)) && job.name.includes(one.id) && hasBegun(job, node),
    );
    if (begun) continue;
    const bytes = bytesOf(one);
    const resident = reportedResident(node, observed, one) ?? 0;
    if (resident >= bytes) continue;
    // The agent counts resident bytes of this preload's pins in `pinnedBytes`.
    const pinned = observed.pins?.get(pinOwner(uid, one))?.has(node) === true || isPinned(node, observed, one);
    needed += pinned ? bytes - resident : bytes;
  }
  if (needed === 0) return 0;
  const inBudget = budgetBytes > pinnedBytes ? budgetBytes - pinnedBytes : 0n;
  return Math.max(0, needed - Number(inBudget));
}

function hasBegun(job: ObservedPreload['jobs'][number], node: string): boolean {
  if (hasEnded(job)) return false;
  const part = job.nodes.find((one) => one.node === node);
  return part !== undefined && part.state !== 'Failed' && part.bytesReady > 0n;
}

function isPinned(node: string, { agents }: ObservedPreload, wanted: Wanted): boolean {
  const dataset = agents?.datasets.get(wanted.registered);
  if (dataset?.manifest !== wanted.manifest) return false;
  return rowOf(dataset, node)?.pinned === true;
}
