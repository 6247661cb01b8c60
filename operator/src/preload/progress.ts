import type { NodeStatus, WarmJob, WarmJobNode } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CachePreload, PreloadedNode } from '@hearth/common/resources';
import { type ObservedPreload, pinKey, retryKey } from './observation.ts';
import { reportedResident } from './room.ts';
import { bytesOf, hasEnded, jobPrefix, pinOwner, type Wanted } from './wanted.ts';

/** The progress of one node with the files of one Dataset. */
export interface Part {
  wanted: Wanted;
  state: 'pending' | 'warming' | 'verifying' | 'ready' | 'failed';
  bytes: number;
  bytesReady: number;
  /** Stored bytes, and bytes in memory that the agent is storing. */
  bytesInMemory: number;
  inMemory: boolean;
  /** Milliseconds since the epoch; undefined until it happens, or when agents forgot it. */
  requestedAt: number | undefined;
  inMemoryAt: number | undefined;
  storedAt: number | undefined;
  bytesVerified: number;
  originBytes: number;
  peerBytes: number;
  pinned: boolean;
  jobs: readonly string[];
  message: string;
  errorCode: string;
  /** No retry before this time, milliseconds since the epoch. */
  retryAt: number | undefined;
}

/** The progress of one node over all Datasets. */
export interface NodeProgress {
  name: string;
  phase: PreloadedNode['phase'];
  parts: readonly Part[];
  present: boolean;
  pinned: boolean;
  /** Every byte is in memory or stored. */
  inMemory: boolean;
  stored: boolean;
  missingRoom: number;
  message: string;
}

/** An agent's report on its caches may lag this much behind its report on a job, ms. */
const settleMs = 30_000;

export function progressOf(
  name: string,
  preload: CachePreload,
  observed: ObservedPreload,
  wanted: readonly Wanted[],
  missingRoom: number,
): NodeProgress {
  const agent = observed.agents?.nodes.get(name);
  const present = agent?.ready === true;
  const parts = wanted.map((one) => partOf(name, preload, observed, one));
  const pinned = parts.every((part) => part.pinned);
  const ready = parts.length > 0 && parts.every(({ state }) => state === 'ready');
  const inMemory = present && parts.length > 0 && parts.every((part) => part.inMemory);
  const common = { name, parts, present, pinned, inMemory, stored: present && ready, missingRoom };
  if (!present) return { ...common, phase: 'Gone', message: absence(name, observed) };
  if (ready && pinned) return { ...common, phase: 'Ready', message: '' };
  const failed = parts.find(({ state }) => state === 'failed');
  if (failed !== undefined) return { ...common, phase: 'Failed', message: failed.message };
  if (missingRoom > 0)
    return {
      ...common,
      phase: 'Pending',
      message: `the cache lacks ${missingRoom} bytes; raise its budget, or unpin other data`,
    };
  const trouble = parts.map((part) => troubleOfPin(name, preload, observed, part)).find((one) => one !== undefined);
  const waits = trouble ?? (ready ? 'the agent has not pinned the files yet' : storedOnly(preload, agent));
  if (ready) return { ...common, phase: 'Pending', message: waits };
  const states = new Set(parts.map(({ state }) => state));
  if (states.has('warming')) return { ...common, phase: 'Warming', message: waits || told(parts) || limitsOf(agent) };
  if (states.has('verifying')) return { ...common, phase: 'Verifying', message: waits };
  return { ...common, phase: 'Pending', message: waits };
}

function partOf(node: string, preload: CachePreload, observed: ObservedPreload, wanted: Wanted): Part {
  const bytes = bytesOf(wanted);
  const jobs = jobsFor(preload, observed, wanted).filter((job) => job.nodes.some((one) => one.node === node));
  const reported = reportedResident(node, observed, wanted);
  const row = keptRow(node, preload, wanted);
  const pinned =
    !preload.spec.pin || observed.pins?.get(pinOwner(preload.metadata.uid ?? '', wanted))?.has(node) === true;
  // The newest job has the latest figures; bytes of older jobs stay resident.
  const [newest] = jobs.map((job) => ({ job, part: partIn(job, node) }));
  const ofJob = newest === undefined ? 0 : Number(newest.part.bytesReady);
  const bytesReady = Math.min(bytes, Math.max(ofJob, reported ?? 0));
  const live = newest !== undefined && isLive(newest.job, newest.part);
  const part: Part = {
    wanted,
    state: 'pending',
    bytes,
    bytesReady,
    bytesInMemory: Math.min(bytes, Math.max(bytesReady, live ? Number(newest.part.bytesInMemory) : 0)),
    inMemory: live && newest.part.inMemoryAt !== '',
    requestedAt: jobs.length === 0 ? undefined : Math.min(...jobs.map((job) => timeOf(job.createdAt))),
    inMemoryAt: timeOf(newest?.part.inMemoryAt) || undefined,
    storedAt: timeOf(newest?.part.storedAt) || undefined,
    bytesVerified: Math.min(bytes, newest === undefined ? 0 : Number(newest.part.bytesVerified)),
    originBytes: sumOf(jobs, node, 'originBytes'),
    peerBytes: sumOf(jobs, node, 'peerBytes'),
    pinned,
    jobs: jobs.filter((job) => !hasEnded(job)).map(({ name }) => name),
    message: '',
    errorCode: '',
    retryAt: observed.retryAt.get(retryKey(wanted.id, node)),
  };
  if (wanted.measure?.kind !== 'files') return part;
  const whole = { ...part, bytesReady: bytes, bytesInMemory: bytes, inMemory: true };
  if (row?.phase === 'Ready' && !isLost(newest?.job, reported, bytes, preload, observed)) {
    return { ...whole, state: 'ready', bytesVerified: Math.max(part.bytesVerified, row.bytesVerified > 0 ? bytes : 0) };
  }
  if (newest?.part.state === 'Succeeded' && !isLost(newest.job, reported, bytes, preload, observed)) {
    return { ...whole, state: 'ready' };
  }
  // Resident files need no job. Other values of `verify` need the origin's digest, which a job compares.
  if (reported !== undefined && reported >= bytes && preload.spec.verify === 'Checksum' && part.jobs.length === 0) {
    return { ...whole, state: 'ready' };
  }
  if (newest === undefined) return part;
  return { ...part, ...stateOf(newest.job, newest.part) };
}

/** Why agents bring nothing at present, in their words; empty when they say nothing. */
function told(parts: readonly Part[]): string {
  return [...new Set(parts.map(({ message }) => message))].filter(Boolean).join('; ');
}

/** Bytes in memory count while an agent works on them. */
function isLive(job: WarmJob, { state }: WarmJobNode): boolean {
  return !hasEnded(job) && (state === 'Running' || state === 'Verifying');
}

/** Why `readyWhen: Memory` waits for stored bytes; empty when it does not. */
function storedOnly({ spec }: CachePreload, agent: NodeStatus): string {
  if (spec.readyWhen !== 'Memory' || agent.apiFeatures.includes('memory-ready')) return '';
  return 'counts stored bytes alone, as the release of its agent does not report bytes in memory';
}

function stateOf(job: WarmJob, part: WarmJobNode): Pick<Part, 'state' | 'message' | 'errorCode'> {
  const { message, errorCode } = part;
  switch (part.state) {
    case 'Running':
      return { state: hasEnded(job) ? 'pending' : 'warming', message, errorCode: '' };
    case 'Verifying':
      return { state: hasEnded(job) ? 'pending' : 'verifying', message, errorCode: '' };
    case 'Failed':
      return { state: 'failed', message, errorCode };
    default:
      return { state: 'pending', message: '', errorCode: '' };
  }
}

/** True when pinned files are missing long after they were complete; agents fetch only pinned files again. */
function isLost(
  job: WarmJob | undefined,
  reported: number | undefined,
  bytes: number,
  { spec }: CachePreload,
  { agents, now }: ObservedPreload,
): boolean {
  if (!spec.pin || reported === undefined || reported >= bytes || agents?.connected !== true) return false;
  // The state of a job may be final before its `endedAt` is set.
  return job === undefined || (hasEnded(job) && job.endedAt !== '' && now - timeOf(job.endedAt) > settleMs);
}

/** A new plan for pods changes the nodes of the spec alone, so written rows of other nodes remain valid. */
export function isOfPresentSpec({ metadata, spec, status }: CachePreload): boolean {
  return spec.placement.gatedPods !== undefined || status?.observedGeneration === metadata.generation;
}

/** The written row of the node, if it describes this revision and the present spec. */
function keptRow(node: string, preload: CachePreload, wanted: Wanted): PreloadedNode | undefined {
  if (!isOfPresentSpec(preload)) return undefined;
  const { status } = preload;
  const bound = status?.revisions?.find((one) => one.dataset === wanted.dataset);
  return bound?.manifest === wanted.manifest ? status?.nodes?.find(({ name }) => name === node) : undefined;
}

/** Jobs for these files, running jobs and the newest first. */
export function jobsFor(
  { metadata }: CachePreload,
  { jobs }: Pick<ObservedPreload, 'jobs'>,
  wanted: Wanted,
): WarmJob[] {
  const prefix = `${jobPrefix(metadata.uid ?? '')}${wanted.id}-`;
  return jobs
    .filter(({ name }) => name.startsWith(prefix))
    .sort((a, b) => Number(hasEnded(a)) - Number(hasEnded(b)) || (a.createdAt < b.createdAt ? 1 : -1));
}

function partIn(job: WarmJob, node: string): WarmJobNode {
  return job.nodes.find((one) => one.node === node) as WarmJobNode;
}

function sumOf(jobs: readonly WarmJob[], node: string, field: 'originBytes' | 'peerBytes'): number {
  return jobs.reduce((sum, job) => sum + Number(partIn(job, node)[field]), 0);
}

type Counted = 'bytes' | 'bytesReady' | 'bytesInMemory' | 'bytesVerified' | 'originBytes' | 'peerBytes';

export function totalOf({ parts }: NodeProgress, field: Counted): number {
  return parts.reduce((total, part) => total + part[field], 0);
}

function absence(name: string, { agents, nodes }: ObservedPreload): string {
  if (!nodes.some((node) => node.name === name)) return 'there is no such node in the StorageCluster';
  const agent = agents?.nodes.get(name);
  if (agent === undefined) return 'the agent of the node does not answer';
  return `the agent of the node does not serve: ${agent.reason}`;
}

/** Empty when the node has no limits. */
function limitsOf(agent: NodeStatus | undefined): string {
  const limits = agent?.capabilities.find(({ name }) => name === 'limits');
  return limits === undefined ? '' : `the limits of the node apply (${limits.reason})`;
}

function troubleOfPin(
  node: string,
  { metadata }: CachePreload,
  { pinTroubles }: ObservedPreload,
  { wanted, pinned }: Part,
): string | undefined {
  if (pinned) return undefined;
  const trouble = pinTroubles.get(pinKey(pinOwner(metadata.uid ?? '', wanted), node));
  return trouble && `the agent could not pin the files: ${trouble.message}`;
}

export function wholeSeconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Milliseconds since the epoch; 0 when the text is no time. */
export function timeOf(text: string | undefined): number {
  return Date.parse(text ?? '') || 0;
}
