import type { ErrorCode } from '@hearth/common';
import type { NodeState, WarmDivisionRecord, WarmJobRecord, WarmProgressRecord } from './record.ts';

export type JobState = 'Pending' | 'Running' | 'Verifying' | 'Succeeded' | 'Failed' | 'Cancelled';

export interface NodeView extends WarmProgressRecord {
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
  bytesVerified: bigint;
  bytesPerSecond: bigint;
}

export interface JobInput {
  job: WarmJobRecord;
  /** By node; agents that have not reported are absent. */
  progress: ReadonlyMap<string, WarmProgressRecord>;
  division: WarmDivisionRecord | undefined;
  /** Names of the agents that are members now. */
  members: ReadonlySet<string>;
  /** Milliseconds since the epoch. */
  now: number;
  /** An agent is waited for this long after it went away: a restart resumes, a loss fails the job. */
  goneGraceMs: number;
}

/**
 * The state of a job from what its agents reported: pure, so that every agent and every client sees the
 * same. A record that says how the job ended is final, whatever is reported afterwards.
 */
export function viewJob(input: JobInput): JobView {
  const { job } = input;
  const nodes = job.nodes.map((node) => viewNode(node, input));
  const live = nodes.filter((node) => node.state === 'Running' || node.state === 'Verifying');
  const totals = {
    nodes,
    bytesTotal: sum(nodes.map((node) => node.bytesTotal)),
    bytesReady: sum(nodes.map((node) => node.bytesReady)),
    bytesVerified: sum(nodes.map((node) => node.bytesVerified)),
    bytesPerSecond: job.end === undefined ? sum(live.map((node) => node.bytesPerSecond)) : 0n,
  };
  if (job.end !== undefined) {
    const { state, message, errorCode } = job.end;
    return { ...totals, state, message, ...(errorCode === undefined ? {} : { errorCode }) };
  }
  return { ...totals, ...derive(input, nodes) };
}

type Outcome = { state: JobState; message: string; errorCode?: ErrorCode };

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
    const message = `the deadline passed when ${done} of ${nodes.length} agents were done; warm again with a later one: what is there stays`;
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
  const waiting = gone.length === 0 ? '' : `waiting for ${gone.join(', ')}, which went away`;
  return { state: liveState(nodes), message: [reasons, waiting].filter((part) => part !== '').join('; ') };
}

function liveState(nodes: readonly NodeView[]): JobState {
  const states = new Set(nodes.map((node) => node.state));
  if (states.has('Running')) return 'Running';
  if (states.has('Verifying')) return 'Verifying';
  // Some are done and others have not begun: the job as a whole is under way.
  return states.has('Succeeded') || states.has('Failed') || states.has('Cancelled') ? 'Running' : 'Pending';
}

function viewNode(node: string, { job, progress, division, members, now, goneGraceMs }: JobInput): NodeView {
  const gone = !members.has(node);
  const reported = progress.get(node) ?? emptyProgress(job, node);
  const view: NodeView = { ...reported, gone, share: division?.shares[node] ?? 0n };
  const since = division?.goneSince[node];
  if (!gone || hasEnded(view.state) || since === undefined || now - since < goneGraceMs) return view;
  return {
    ...view,
    state: 'Failed',
    errorCode: 'Unavailable',
    message: `the agent has been gone for ${Math.round((now - since) / 1000)} s; start it and warm again, or leave it out`,
  };
}

export function emptyProgress(job: Pick<WarmJobRecord, 'name' | 'createdAt'>, node: string): WarmProgressRecord {
  return {
    job: job.name,
    createdAt: job.createdAt,
    node,
    state: 'Pending',
    bytesTotal: 0n,
    bytesReady: 0n,
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

/** Whether nothing more is to be expected. The switch is exhaustive: a new state must be decided here. */
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
