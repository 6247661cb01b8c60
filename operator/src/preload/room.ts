import type { Dataset as AgentDataset, DatasetResidency } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CachePreload } from '@hearth/common/resources';
import { hasEnded, jobPrefix, pinOwner } from './job_request.ts';
import type { ObservedPreload } from './observation.ts';
import { bytesOf, type Wanted } from './wanted.ts';

/** Bytes of one Dataset on a node, as its agent reports them of the present revision as a whole; undefined: not of this. */
export function reportedResident(node: string, { agents }: ObservedPreload, wanted: Wanted): number | undefined {
  const dataset = agents?.datasets.get(wanted.registered);
  if (wanted.paths.length > 0 || dataset?.manifest !== wanted.manifest) return undefined;
  return Number(rowOf(dataset, node)?.residentBytes ?? 0n);
}

/** Of messages with thousands of nodes, of each of which it is asked. */
const rows = new WeakMap<readonly DatasetResidency[], ReadonlyMap<string, DatasetResidency>>();

function rowOf({ residency }: Pick<AgentDataset, 'residency'>, node: string): DatasetResidency | undefined {
  let byNode = rows.get(residency);
  if (byNode === undefined) {
    byNode = new Map(residency.map((row) => [row.node, row]));
    rows.set(residency, byNode);
  }
  return byNode.get(node);
}

/** Bytes of all that is wanted that are on the node already, as far as that is known. */
export function residentOf(node: string, observed: ObservedPreload, wanted: readonly Wanted[]): number {
  return wanted.reduce((sum, one) => {
    const dataset = observed.agents?.datasets.get(one.registered);
    const reported = dataset && rowOf(dataset, node);
    return sum + Math.min(bytesOf(one), Number(reported?.residentBytes ?? 0n));
  }, 0);
}

/**
 * Pure. Bytes that the budget of a node lacks for what is wanted, though everything goes that is not pinned; 0: there is
 * room, or the node has begun. What the disk lacks its agent says when it gets there.
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
      (job) => job.name.startsWith(jobPrefix(uid)) && job.name.includes(one.id) && isUnderWay(job, node),
    );
    if (begun) continue;
    const bytes = bytesOf(one);
    const resident = reportedResident(node, observed, one) ?? 0;
    if (resident >= bytes) continue;
    // Bytes pinned by this preload are among the pinned bytes, as far as they are there.
    const pinned = observed.pins?.get(pinOwner(uid, one))?.has(node) === true || isPinned(node, observed, one);
    needed += pinned ? bytes - resident : bytes;
  }
  if (needed === 0) return 0;
  const inBudget = budgetBytes > pinnedBytes ? budgetBytes - pinnedBytes : 0n;
  return Math.max(0, needed - Number(inBudget));
}

function isUnderWay(job: ObservedPreload['jobs'][number], node: string): boolean {
  if (hasEnded(job)) return false;
  const part = job.nodes.find((one) => one.node === node);
  return part !== undefined && part.state !== 'Failed' && part.bytesReady > 0n;
}

function isPinned(node: string, { agents }: ObservedPreload, wanted: Wanted): boolean {
  const dataset = agents?.datasets.get(wanted.registered);
  if (dataset?.manifest !== wanted.manifest) return false;
  return rowOf(dataset, node)?.pinned === true;
}
