import type { ReleaseReason } from '../planner/index.ts';

/** The reason for the release of pods, one word for programs. */
export type Release =
  | ReleaseReason
  /** The bytes are there. */
  | 'Warm'
  /** Its gate only prefers the nodes that hold the bytes. */
  | 'Prefer'
  /** Every node that could take them is full: only an autoscaler can help soon, and it does not see gated pods. */
  | 'NoFreeNode'
  | 'TimedOut'
  /** No volume turned out to be one of a Dataset. */
  | 'NoDataset'
  /** The gates were removed while it waited. */
  | 'Off'
  /** The CachePreload was deleted. */
  | 'Withdrawn'
  /** Nothing that could be planned. */
  | 'NoPlan';

/** Every reason; the compiler finds one that is missing. */
export const releases = Object.keys({
  Warm: true,
  Prefer: true,
  TimedOut: true,
  NoFreeNode: true,
  NoFeasibleNode: true,
  NoRoom: true,
  NoAgent: true,
  NoDataset: true,
  Off: true,
  Withdrawn: true,
  NoPlan: true,
} satisfies Record<Release, true>) as readonly Release[];
/** Pods start where the bytes are. Events about other reasons are warnings, except for quiet ones. */
export const warmReasons: ReadonlySet<Release> = new Set<Release>(['Warm', 'Prefer']);
/** Reasons that hold for the pods of a plan, and not for pods that came after it. */
export const plannedReasons: ReadonlySet<Release> = new Set<Release>([
  ...warmReasons,
  'NoFreeNode',
  'NoFeasibleNode',
  'NoRoom',
  'NoAgent',
]);
export const quietReasons: ReadonlySet<Release> = new Set<Release>([...warmReasons, 'NoDataset', 'Off', 'Withdrawn']);
