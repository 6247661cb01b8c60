import { createHash } from 'node:crypto';
import { ignoring } from '@hearth/common';
import {
  type Dataset as AgentDataset,
  CreateWarmJobRequest,
  type WarmJob,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterAgents } from '../agents/index.ts';
import { hasEnded } from '../preload/index.ts';

/** A copy of a Dataset's present revision that a node should get. */
export type Copy = { purpose: string; dataset: AgentDataset; node: string };

export type CopyState =
  | { kind: 'due'; job: string }
  | { kind: 'running'; job: WarmJob }
  | { kind: 'failed'; message: string; retryInMs: number };

/** People wait for nodes that join or leave. */
const priority = 200;
const retryAfterMs = 30_000;
const maxAttempts = 1_000;

export function isComplete({ bytes, files, residency }: AgentDataset, node: string): boolean {
  const row = residency.find((one) => one.node === node);
  return (row?.residentBytes ?? 0n) >= bytes && (row?.completeFiles ?? 0n) >= files;
}

/** Pure. The job's name is a digest of copy and attempt, so a restarted operator finds the running job. */
export function copyState(jobs: ReadonlyMap<string, WarmJob>, copy: Copy, now: number): CopyState {
  let failed: WarmJob | undefined;
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const name = jobName(copy, attempt);
    const job = jobs.get(name);
    if (job === undefined) {
      const retryInMs = failed === undefined ? 0 : Date.parse(failed.endedAt) + retryAfterMs - now;
      if (failed === undefined || retryInMs <= 0) return { kind: 'due', job: name };
      return { kind: 'failed', message: failed.message, retryInMs };
    }
    // An ended job without the bytes: it failed, or the agent evicted them since.
    if (!hasEnded(job)) return { kind: 'running', job };
    failed = job;
  }
  return { kind: 'failed', message: 'it was tried too often', retryInMs: retryAfterMs };
}

/** Idempotent. `agents` is undefined for a deleted cluster, which needs no copy. */
export async function requestCopy(
  agents: Pick<ClusterAgents, 'call'> | undefined,
  { dataset, node }: Copy,
  job: string,
  signal: AbortSignal,
): Promise<void> {
  const request = { dataset: dataset.name, nodes: [node], priority, verify: 'checksum', name: job };
  // The status may not show an earlier request yet.
  const call = agents?.call('createWarmJob', CreateWarmJobRequest.fromPartial(request), { signal });
  await call?.catch(ignoring('AlreadyExists'));
}

function jobName({ purpose, dataset, node }: Copy, attempt: number): string {
  const text = JSON.stringify([dataset.name, dataset.manifest, node, attempt]);
  return `${purpose}-${createHash('sha256').update(text).digest('hex').slice(0, 20)}`;
}
