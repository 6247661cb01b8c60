import type { ErrorCode } from '@hearth/common';
import type { NodeState, WarmDivisionRecord, WarmJobRecord, WarmProgressRecord } from './record.ts';

export type JobState = 'Pending' | 'Running' | 'Verifying' | 'Succeeded' | 'Failed' | 'Cancelled';

export interface NodeView extends WarmProgressRecord {
  /** Stored bytes for an agent that does not report memory. */
  bytesInMemory: bigint;
  reportsMemory: boolean;
  gone: boolean;
  share: bigint;
}

export interface JobView {
  state: JobState;
  message: string;
  errorCode?: ErrorCode;
  nodes: NodeView[];
  bytesTotal: bigint;
  bytesReady: bigint;
  bytesInMemory: bigint;
  bytesVerified: bigint;
  bytesPerSecond: bigint;
  /** When all was in memory, and stored, on all nodes, milliseconds since the epoch; undefined: not yet. */
  inMemoryAt: number | undefined;
  storedAt: number | undefined;
  /** True when the job is ready in the sense of `readyWhen`. */
  ready: boolean;
}

export interface JobInput {
  job: WarmJobRecord;
  /** By node; agents without a report are absent. */
  progress: ReadonlyMap<string, WarmProgressRecord>;
  division: WarmDivisionRecord | undefined;
  /** Names of current member agents. */
  members: ReadonlySet<string>;
  /** Milliseconds since the epoch. */
  now: number;
  /** Time to wait for an absent agent: a restart resumes, a loss fails the job. */
  goneGraceMs: number;
}

/**
 * Derives the state of a job from its agents' reports. Pure, so that every agent and client sees the same state. A
 * recorded end is final, whatever is reported afterwards.
 */
export function viewJob(input: JobInput): JobView {
  const { job } = input;
  const nodes = job.nodes.map((node) => viewNode(node, input));
  const live = nodes.filter((node) => node.state === 'Running' || node.state === 'Verifying');
  const totals = {
    nodes,
    bytesTotal: sum(nodes.map((node) => node.bytesTotal)),
    bytesReady: sum(nodes.map((node) => node.bytesReady)),
    bytesInMemory: sum(nodes.map((node) => node.bytesInMemory)),
    bytesVerified: sum(nodes.map((node) => node.bytesVerified)),
    bytesPerSecond: job.end === undefined ? sum(live.map((node) => node.bytesPerSecond)) : 0n,
    inMemoryAt: lastOf(nodes.map((node) => node.inMemoryAt)),
    storedAt: lastOf(nodes.map((node) => node.storedAt)),
  };
  const outcome: Outcome = job.end ?? derive(input, nodes);
  const { state, message, errorCode } = outcome;
  const ready = state === 'Succeeded' || (job.readyWhen === 'memory' && !hasEnded(state) && isInMemory(nodes));
  return { ...totals, ready, state, message, ...(errorCode === undefined ? {} : { errorCode }) };
}

function isInMemory(nodes: readonly NodeView[]): boolean {
  return nodes.every((node) => node.inMemoryAt !== undefined || node.state === 'Succeeded');
}

/** The latest time; undefined while one is missing. */
function lastOf(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 || known.length < times.length ? undefined : Math.max(...known);
}

type Outcome = { state: JobState; message: string; errorCode?: ErrorCode | undefined };

function derive({ job, now }: JobInput, nodes: readonly NodeView[]): Outcome {
  if (job.cancelledAt !== undefined) return { state: 'Cancelled', message: 'cancelled' };
  const failed = nodes.filter((node) => node.state === 'Failed');
  const cancelled = nodes.filter((node) => node.state === 'Cancelled');
  const ended = nodes.every((node) => hasEnded(node.state));
  if (ended && failed.length === 0 && cancelled.length === 0) return { state: 'Succeeded', message: '' };
  const reasons = failed.map((node) => `${node.node}: ${node.message}`).join('; ');
  const code = failed[0]?.errorCode;
  if (job.deadlineAt !== undefined && now >= job.deadlineAt) {
    const done = nodes.filter((node) => node.state === 'Succeeded').length;
    const message = `the deadline passed after ${done} of ${nodes.length} agents had finished; warm again with a later deadline: the fetched bytes stay`;
    return {
      state: 'Failed',
      message: reasons === '' ? message : `${message} (${reasons})`,
      errorCode: 'DeadlineExceeded',
    };
  }
  if (ended && failed.length > 0)
    return { state: 'Failed', message: reasons, ...(code === undefined ? {} : { errorCode: code }) };
  if (ended) return { state: 'Cancelled', message: `cancelled on ${cancelled.map((node) => node.node).join(', ')}` };
  const gone = nodes.filter((node) => node.gone && !hasEnded(node.state)).map((node) => node.node);
  const waiting = gone.length === 0 ? '' : `waiting for the absent ${gone.join(', ')}`;
  const notes = [reasons, waiting, held(nodes), storedOnly(job, nodes)].filter((part) => part !== '');
  return { state: liveState(nodes), message: notes.join('; ') };
}

/** Says by which agents, and why, nothing comes at present. */
function held(nodes: readonly NodeView[]): string {
  const waiting = nodes.filter((node) => !node.gone && !hasEnded(node.state) && node.message !== '');
  return waiting.map((node) => `${node.node}: ${node.message}`).join('; ');
}

/** Names agents whose release does not report memory: a job with readyWhen memory waits for them to store it. */
function storedOnly({ readyWhen }: WarmJobRecord, nodes: readonly NodeView[]): string {
  if (readyWhen !== 'memory') return '';
  const silent = nodes.filter((node) => !node.reportsMemory && !hasEnded(node.state)).map((node) => node.node);
  if (silent.length === 0) return '';
  return `${silent.join(', ')} is ready only when its bytes are stored, because the release of its agent does not report bytes in memory`;
}

function liveState(nodes: readonly NodeView[]): JobState {
  const states = new Set(nodes.map((node) => node.state));
  if (states.has('Running')) return 'Running';
  if (states.has('Verifying')) return 'Verifying';
  // Some parts have ended and others have not started: the job as a whole is running.
  return states.has('Succeeded') || states.has('Failed') || states.has('Cancelled') ? 'Running' : 'Pending';
}

function viewNode(node: string, { job, progress, division, members, now, goneGraceMs }: JobInput): NodeView {
  const gone = !members.has(node);
  const reported = progress.get(node) ?? emptyProgress(job, node);
  const view: NodeView = {
    ...reported,
    bytesInMemory: reported.bytesInMemory ?? reported.bytesReady,
    reportsMemory: reported.bytesInMemory !== undefined,
    gone,
    share: division?.shares[node] ?? 0n,
  };
  if (!gone || hasEnded(view.state)) return view;
  const since = division?.goneSince[node];
  if (since === undefined || now - since < goneGraceMs) return withoutMemory(view);
  return {
    ...withoutMemory(view),
    state: 'Failed',
    errorCode: 'Unavailable',
    message: `the agent has been gone for ${Math.round((now - since) / 1000)} s; start it and warm again, or exclude its node`,
  };
}

/** Bytes in the memory of an absent agent are not readable. */
function withoutMemory({ inMemoryAt: _, ...view }: NodeView): NodeView {
  return { ...view, bytesInMemory: view.bytesReady };
}

export function emptyProgress(job: Pick<WarmJobRecord, 'name' | 'createdAt'>, node: string): WarmProgressRecord {
  return {
    job: job.name,
    createdAt: job.createdAt,
    node,
    state: 'Pending',
    bytesTotal: 0n,
    bytesReady: 0n,
    bytesInMemory: 0n,
    filesTotal: 0,
    filesReady: 0,
    filesVerified: 0,
    originBytes: 0n,
    peerBytes: 0n,
    bytesVerified: 0n,
    bytesPerSecond: 0n,
    message: '',
  };
}

/** True for final states. Exhaustive, so a new state must be decided here. */
export function hasEnded(state: NodeState | JobState): boolean {
  switch (state) {
    case 'Pending':
    case 'Running':
    case 'Verifying':
      return false;
    case 'Succeeded':
    case 'Failed':
    case 'Cancelled':
      return true;
    default:
      return state satisfies never;
  }
}

function sum(values: bigint[]): bigint {
  return values.reduce((a, b) => a + b, 0n);
}
