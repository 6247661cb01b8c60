import { createHash } from 'node:crypto';
import { HearthError } from '@hearth/common';
import {
  type Dataset as AgentDataset,
  CreateWarmJobRequest,
  type WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterAgents, ClusterStatus } from '../agents/index.ts';

/** A copy of a Dataset's present revision that is to be on a node. */
export interface Copy {
  /** Why, as a part of the job's name: `join`, `keep`. */
  purpose: string;
  dataset: AgentDataset;
  node: string;
}

export type CopyState =
  | { kind: 'asked' }
  | { kind: 'running'; job: WarmJob }
  /** Tried again after this time, milliseconds. */
  | { kind: 'failed'; message: string; againInMs: number };

/** Of warm jobs with other wishes; people wait for a node that joins or goes. */
const priority = 200;
const againAfterMs = 30_000;
const mostTries = 1_000;

/** Whether all of the present revision is on the node. */
export function isComplete({ bytes, files, residency }: AgentDataset, node: string): boolean {
  const row = residency.find((one) => one.node === node);
  return row !== undefined && row.residentBytes >= bytes && row.completeFiles >= files;
}

/**
 * Brings a copy, by a warm job that is named after it, so that an operator that was restarted finds the job instead of
 * beginning again. A job that failed is followed by another one after a while.
 */
export async function bringCopy(
  agents: Pick<ClusterAgents, 'call'>,
  status: Pick<ClusterStatus, 'jobs'>,
  copy: Copy,
  now: number,
  signal: AbortSignal,
): Promise<CopyState> {
  let failed: WarmJob | undefined;
  for (let attempt = 0; attempt < mostTries; attempt += 1) {
    const name = jobName(copy, attempt);
    const job = status.jobs.get(name);
    if (job === undefined) {
      const againInMs = failed === undefined ? 0 : Date.parse(failed.endedAt) + againAfterMs - now;
      if (failed !== undefined && againInMs > 0) return { kind: 'failed', message: failed.message, againInMs };
      await askFor(agents, copy, name, signal);
      return { kind: 'asked' };
    }
    // One that succeeded, though the bytes are not there: they were evicted since.
    if (!hasEnded(job)) return { kind: 'running', job };
    failed = job;
  }
  return { kind: 'failed', message: 'it was tried too often', againInMs: againAfterMs };
}

async function askFor(
  agents: Pick<ClusterAgents, 'call'>,
  { dataset, node }: Copy,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const request = CreateWarmJobRequest.fromPartial({
    dataset: dataset.name,
    nodes: [node],
    priority,
    verify: 'checksum',
    name,
  });
  try {
    await agents.call('createWarmJob', request, { signal });
  } catch (thrown) {
    const error = HearthError.from(thrown);
    // Asked before, and not in the status yet.
    if (error.code !== 'AlreadyExists') throw error;
  }
}

function jobName({ purpose, dataset, node }: Copy, attempt: number): string {
  const text = JSON.stringify([dataset.name, dataset.manifest, node, attempt]);
  return `${purpose}-${createHash('sha256').update(text).digest('hex').slice(0, 20)}`;
}

function hasEnded({ state }: WarmJob): boolean {
  return state === 'Succeeded' || state === 'Failed' || state === 'Cancelled';
}
