import { createHash } from 'node:crypto';
import { ignoring } from '@hearth/common';
import {
  type Dataset as AgentDataset,
  CreateWarmJobRequest,
  type WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterAgents } from '../agents/index.ts';
import { hasEnded } from '../preload/index.ts';

/** A copy of a Dataset's present revision that is to be on a node. */
export interface Copy {
  /** Why, as a part of the job's name: `join`, `keep`. */
  purpose: string;
  dataset: AgentDataset;
  node: string;
}

export type CopyState =
  /** To be asked for, by a job of this name. */
  | { kind: 'due'; job: string }
  | { kind: 'running'; job: WarmJob }
  /** Tried again after this time, milliseconds. */
  | { kind: 'failed'; message: string; againInMs: number };

/** Of warm jobs with other wishes; people wait for a node that joins or goes. */
const priority = 200;
const againAfterMs = 30_000;
const maxTries = 1_000;

/** True when all of the present revision is on the node. */
export function isComplete({ bytes, files, residency }: AgentDataset, node: string): boolean {
  const row = residency.find((one) => one.node === node);
  return row !== undefined && row.residentBytes >= bytes && row.completeFiles >= files;
}

/**
 * Pure. How far a copy is. It is brought by a warm job whose name follows from it, so that an operator that was restarted finds
 * the job instead of beginning again. A job that failed is followed by another one after a while.
 */
export function copyState(jobs: ReadonlyMap<string, WarmJob>, copy: Copy, now: number): CopyState {
  let failed: WarmJob | undefined;
  for (let attempt = 0; attempt < maxTries; attempt += 1) {
    const name = jobName(copy, attempt);
    const job = jobs.get(name);
    if (job === undefined) {
      const againInMs = failed === undefined ? 0 : Date.parse(failed.endedAt) + againAfterMs - now;
      if (failed === undefined || againInMs <= 0) return { kind: 'due', job: name };
      return { kind: 'failed', message: failed.message, againInMs };
    }
    // One that succeeded, though the bytes are not there: they were evicted since.
    if (!hasEnded(job)) return { kind: 'running', job };
    failed = job;
  }
  return { kind: 'failed', message: 'it was tried too often', againInMs: againAfterMs };
}

/** Idempotent. `agents` undefined: the cluster has gone, and with it who could want the copy. */
export async function requestCopy(
  agents: Pick<ClusterAgents, 'call'> | undefined,
  { dataset, node }: Copy,
  job: string,
  signal: AbortSignal,
): Promise<void> {
  const request = { dataset: dataset.name, nodes: [node], priority, verify: 'checksum', name: job };
  // It may have been asked for before, and not be in the status yet.
  const asked = agents?.call('createWarmJob', CreateWarmJobRequest.fromPartial(request), { signal });
  await asked?.catch(ignoring('AlreadyExists'));
}

function jobName({ purpose, dataset, node }: Copy, attempt: number): string {
  const text = JSON.stringify([dataset.name, dataset.manifest, node, attempt]);
  return `${purpose}-${createHash('sha256').update(text).digest('hex').slice(0, 20)}`;
}
