import type { CachePreload } from '@hearth/common/resources';
import type { AffinityPlan } from '../planner/index.ts';
import type { GatedMember } from './groups.ts';
import type { Wanted } from './planning_queue.ts';

export type Waiting = { kind: 'wait'; message: string };

export interface Releasing {
  kind: 'release';
  reason: Release;
  /** A sentence with the pod as its subject. */
  message: string;
  affinity: (pod: string) => AffinityPlan | undefined;
}

/** One write, to the API server or to the memory of this leader's term. */
export type GroupAction =
  /** Changes of these objects, `kind key`, start another pass. */
  | { kind: 'follow'; objects: ReadonlySet<string> }
  /** Starts another pass after exactly this time, ms. */
  | { kind: 'requeueAfter'; ms: number }
  | { kind: 'createPreload'; object: CachePreload }
  | { kind: 'patchPreload'; change: object }
  /** Writes the planned nodes into the spec, for the executor and the next leader. */
  | { kind: 'writeNodes'; change: object }
  | { kind: 'choose'; wanted: Wanted }
  /** `notify` lists the pods that get an event. */
  | (Waiting & { notify: readonly GatedMember[] })
  | (Releasing & { pods: readonly GatedMember[] })
  | { kind: 'idle' }
  /** The group has no pods. `gone`: the CachePreload is deleted, too. */
  | { kind: 'forget'; gone: boolean }
  | { kind: 'deletePreload'; preload: CachePreload };

/** A leader's memory of a group. */
export interface GroupState {
  /** Uids of pods with open gates that the watch still shows as gated. */
  readonly open: Set<string>;
  /** Clock time; undefined while the group has pods. */
  emptySince?: number | undefined;
  reported?: string | undefined;
  /** Why the API server refuses its CachePreload; cleared by the release of its pods. */
  refused?: string | undefined;
  /** Why the API server refuses the planned nodes; cleared by a successful write. */
  nodesRefused?: string | undefined;
  nodesWrittenAt?: number | undefined;
}

/** Why pods were released: the reasons of the planner (`ReleaseReason`), and those of the gates. */
export const releases = [
  'NoFeasibleNode',
  'NoRoom',
  'NoAgent',
  'Warm',
  /** The gate only prefers nodes that hold the bytes. */
  'Prefer',
  /** Every feasible node is full. Only an autoscaler can help, which does not see gated pods. */
  'NoFreeNode',
  'TimedOut',
  /** No volume belongs to a Dataset. */
  'NoDataset',
  /** The gates of the Datasets were removed. */
  'Off',
  'Withdrawn',
  'NoPlan',
] as const;
export type Release = (typeof releases)[number];
/** Pods start where the bytes are. Events with other reasons are warnings, except for quiet ones. */
export const warmReasons: ReadonlySet<Release> = new Set(['Warm', 'Prefer']);
/** Reasons for the planned pods, not for pods that came after the plan. */
const unplaced: readonly Release[] = ['NoFreeNode', 'NoFeasibleNode', 'NoRoom', 'NoAgent'];
export const plannedReasons: ReadonlySet<Release> = new Set([...warmReasons, ...unplaced]);
export const quietReasons: ReadonlySet<Release> = new Set<Release>([...warmReasons, 'NoDataset', 'Off', 'Withdrawn']);
