import type { CachePreload } from '@hearth/common/resources';
import type { AffinityPlan } from '../planner/index.ts';
import type { GatedMember } from './groups.ts';
import type { Wanted } from './planning_queue.ts';
import type { Release } from './release_reason.ts';

/** Pods go on waiting. */
export interface Waiting {
  kind: 'wait';
  /** The event that they wait for, as a sentence. */
  message: string;
}

/** The operator opens the gates of pods. */
export interface Releasing {
  kind: 'release';
  reason: Release;
  /** A sentence for people, of which the pod is the subject. */
  message: string;
  affinity: (pod: string) => AffinityPlan | undefined;
}

/** One write for a group: to the API server, or to the memory of this leader's term. */
export type GroupAction =
  /** Changes of these objects, `kind key`, wake the group. */
  | { kind: 'follow'; objects: ReadonlySet<string> }
  /** Wakes the group in exactly this time, ms. */
  | { kind: 'lookAgain'; ms: number }
  | { kind: 'createPreload'; object: CachePreload }
  /** A merge patch. */
  | { kind: 'patchPreload'; change: object }
  /** Writes the nodes of the plan into the spec, by which the executor and a later leader go. */
  | { kind: 'writeNodes'; change: object }
  /** Has the planner choose nodes for these pods. */
  | { kind: 'choose'; wanted: Wanted }
  /** `notify`: the pods that get an event. */
  | (Waiting & { notify: readonly GatedMember[] })
  | (Releasing & { pods: readonly GatedMember[] })
  /** No pod waits any more. */
  | { kind: 'rest' }
  /** No pod is left. `gone`: nor is the CachePreload. */
  | { kind: 'forget'; gone: boolean }
  | { kind: 'deletePreload'; preload: CachePreload };
