import type { CreateWarmJobRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CachePreload } from '@hearth/common/resources';
import { type Assessment, assess } from './assessment.ts';
import { type ObservedPreload, pinKey } from './observation.ts';
import type { NodeProgress } from './progress.ts';
import { hasEnded, jobKind, jobRequest, ownerPrefix, pinOwner, type Wanted } from './wanted.ts';

export type PreloadAction =
  /** Asks nodes to keep files, resident or not. */
  | { kind: 'pin'; owner: string; wanted: Wanted; nodes: string[] }
  | { kind: 'startJob'; request: CreateWarmJobRequest }
  | { kind: 'cancelJob'; name: string }
  | { kind: 'releasePins'; owner: string; nodes: string[] }
  | { kind: 'event'; type: 'Normal' | 'Warning'; reason: string; message: string };

/**
 * Pure. Pins precede jobs, so that agents do not evict the new bytes. New jobs precede the end of obsolete jobs, whose
 * bytes the new jobs find.
 */
export function plan(preload: CachePreload, observed: ObservedPreload): PreloadAction[] {
  const assessment = assess(preload, observed);
  const { obstacle, deadlinePassed, expired } = assessment;
  const running = observed.jobs.filter((job) => !hasEnded(job)).map(({ name }) => name);
  const cancel = (names: readonly string[]) => names.map((name): PreloadAction => ({ kind: 'cancelJob', name }));
  if (expired) {
    return [...cancel(running), ...releaseActions(preload, observed, () => false), ...eventsOf(preload, assessment)];
  }
  if (deadlinePassed || obstacle?.reason === 'NoFilesMatch' || obstacle?.reason === 'ClustersDiffer') {
    return observed.agents?.connected === true ? cancel(running) : [];
  }
  // A running job would block the deletion of its Dataset.
  const gone = new Set(
    observed.datasets.flatMap(({ present, registered }) => (present === undefined ? [registered] : [])),
  );
  const orphans = observed.jobs.filter((job) => !hasEnded(job) && gone.has(job.dataset)).map(({ name }) => name);
  if (observed.agents?.connected !== true || observed.pins === undefined) return [];
  const jobs = assessment.wanted.map((wanted) => jobsFor(wanted, preload, observed, assessment));
  const kept = new Set(jobs.flatMap((one) => one.kept));
  const obsolete = running.filter((name) => !kept.has(name) && !orphans.includes(name));
  const settled = obstacle === undefined || jobs.some(({ start }) => start !== undefined);
  return [
    ...pins(preload, observed, assessment),
    ...jobs.flatMap(({ start }): PreloadAction[] =>
      start === undefined ? [] : [{ kind: 'startJob', request: start }],
    ),
    ...cancel(orphans),
    ...(settled ? cancel(obsolete) : []),
    ...(obstacle === undefined ? stalePins(preload, observed, assessment) : []),
    ...eventsOf(preload, assessment),
  ];
}

/** Pure. Milliseconds until the next pass if nothing changes. */
export function requeueAfterMs(preload: CachePreload, observed: ObservedPreload): number | undefined {
  const { now, holdMs, graceMs, unavailableSince, pinTroubles } = observed;
  const { deadlineAt, deadlinePassed, expiresAt, expired, nodes, choice, obstacle } = assess(preload, observed);
  const retries = nodes.flatMap((node) =>
    node.parts.flatMap(({ retryAt }) => (retryAt === undefined ? [] : [retryAt])),
  );
  const graces = [...unavailableSince].flatMap(([name, since]) =>
    choice.nodes.includes(name) ? [since + graceMs] : [],
  );
  const times = [
    ...(deadlineAt === undefined || deadlinePassed ? [] : [deadlineAt]),
    ...(expiresAt === undefined || expired ? [] : [expiresAt]),
    ...[...retries, ...graces, ...[...pinTroubles.values()].map(({ until }) => until)].filter((time) => time > now),
    ...(holdMs > 0 ? [now + holdMs] : []),
    // Agents still owe an answer.
    ...(obstacle !== undefined || choice.trouble !== undefined ? [now + 15_000] : []),
  ];
  return times.length === 0 ? undefined : Math.max(50, Math.min(...times) - now);
}

function pins(preload: CachePreload, observed: ObservedPreload, { nodes, wanted }: Assessment): PreloadAction[] {
  if (!preload.spec.pin) return [];
  return wanted.flatMap((one): PreloadAction[] => {
    if (one.measure?.kind !== 'files' || one.trouble !== undefined) return [];
    const owner = pinOwner(preload.metadata.uid ?? '', one);
    const lacking = nodes.filter(({ name, present, missingRoom, parts }) => {
      const part = parts.find(({ wanted: { id } }) => id === one.id);
      const until = observed.pinTroubles.get(pinKey(owner, name))?.until ?? 0;
      return present && missingRoom === 0 && part?.pinned === false && until <= observed.now;
    });
    return lacking.length === 0 ? [] : [{ kind: 'pin', owner, wanted: one, nodes: lacking.map(({ name }) => name) }];
  });
}

function jobsFor(
  wanted: Wanted,
  preload: CachePreload,
  observed: ObservedPreload,
  { nodes }: Assessment,
): { kept: string[]; start: CreateWarmJobRequest | undefined } {
  const desired = new Set(nodes.map(({ name }) => name));
  const kind = jobKind(preload, wanted);
  const running = observed.jobs.filter((job) => job.name.startsWith(kind) && !hasEnded(job));
  // A job with an undesired node is replaced.
  const fitting = running.filter((job) => job.nodes.every(({ node }) => desired.has(node)));
  if (wanted.measure?.kind !== 'files' || wanted.trouble !== undefined) {
    return { kept: running.map(({ name }) => name), start: undefined };
  }
  const lacking = nodes.filter((node) => isLacking(node, wanted, observed));
  const covered = new Set(
    fitting.flatMap((job) => job.nodes.flatMap(({ node, state }) => (state === 'Failed' ? [] : [node]))),
  );
  const uncovered = lacking.filter(({ name }) => !covered.has(name));
  const kept = fitting.map(({ name }) => name);
  if (uncovered.length === 0) return { kept, start: undefined };
  // The limit on the origin's rate holds for each job, so two jobs would exceed it.
  const alone = preload.spec.rateLimit?.origin !== undefined;
  const targets = (alone ? lacking : uncovered).map(({ name }) => name);
  const start = jobRequest(preload, wanted, targets);
  return { kept: alone ? [start.name] : [...kept, start.name], start };
}

function isLacking({ present, missingRoom, parts }: NodeProgress, wanted: Wanted, { now }: ObservedPreload): boolean {
  const part = parts.find((one) => one.wanted.id === wanted.id);
  if (part === undefined || part.state === 'ready' || !present || missingRoom > 0) return false;
  return part.retryAt === undefined || part.retryAt <= now;
}

/** Releases pins on undesired nodes, and pins of former revisions on nodes that have the present one. */
function stalePins(preload: CachePreload, observed: ObservedPreload, { nodes, wanted }: Assessment): PreloadAction[] {
  const uid = preload.metadata.uid ?? '';
  const current = new Set(preload.spec.pin ? wanted.map((one) => pinOwner(uid, one)) : []);
  const progress = new Map(nodes.map((node) => [node.name, node]));
  return releaseActions(preload, observed, (owner, name) => {
    const node = progress.get(name);
    if (node === undefined || !preload.spec.pin) return false;
    return current.has(owner) || node.phase !== 'Ready';
  });
}

function releaseActions(
  { metadata }: CachePreload,
  { pins }: ObservedPreload,
  stays: (owner: string, node: string) => boolean,
): PreloadAction[] {
  return [...(pins ?? [])].flatMap(([owner, nodes]): PreloadAction[] => {
    if (!owner.startsWith(ownerPrefix(metadata.uid ?? ''))) return [];
    const going = [...nodes].filter((node) => !stays(owner, node)).sort();
    return going.length === 0 ? [] : [{ kind: 'releasePins', owner, nodes: going }];
  });
}

/** Events beside those of Ready. The status then changes, so that each is sent once. */
function eventsOf({ spec, status }: CachePreload, { choice, newRound, wanted, expired }: Assessment): PreloadAction[] {
  const events: PreloadAction[] = [];
  if (choice.replaced.length > 0) {
    const message = `${choice.replaced.join(', ')} cannot hold the Datasets any more; agents bring the bytes to ${choice.nodes.join(', ')}`;
    events.push({ kind: 'event', type: 'Warning', reason: 'NodeReplaced', message });
  }
  if (newRound && (status?.revisions?.length ?? 0) > 0) {
    const names = wanted
      .map(({ dataset, manifest }) => `manifest ${manifest.slice(0, 12)} of Dataset ${dataset}`)
      .join(', ');
    events.push({ kind: 'event', type: 'Normal', reason: 'NewRevision', message: `agents bring ${names}` });
  }
  const pinned = status?.conditions?.find(({ type }) => type === 'Pinned');
  if (expired && pinned?.status === 'True') {
    events.push({
      kind: 'event',
      type: 'Normal',
      reason: 'PinsReleased',
      message: `the operator released the pins, as the ttl of ${spec.ttl} is over`,
    });
  }
  return events;
}
