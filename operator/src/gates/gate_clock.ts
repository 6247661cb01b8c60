import type { Pod } from '@hearth/common/kubernetes';
import { type CachePreload, preloadGateName } from '@hearth/common/resources';
import type { GatedMember } from './groups.ts';

/**
 * Annotation of a group's CachePreload, so that the next leader goes on with the same clock: `held` while gates of
 * others hold all pods, then the time at which the first pod was free, RFC 3339. Absent: no pod was ever held.
 */
export const clockAnnotation = 'hearth.storage/gate-clock';
const held = 'held';

export interface GateClock {
  /** When the time of the gate is over, milliseconds since the epoch; undefined while the clock stands. */
  until: number | undefined;
  /** What the annotation is to say; undefined: what it says. */
  mark: string | undefined;
}

/** True while another gate than ours, such as that of Kueue, keeps the pod from being scheduled. */
export function isHeld({ gated }: GatedMember): boolean {
  return foreignGates(gated).length > 0;
}

export function foreignGates({ spec }: Pod): string[] {
  return (spec?.schedulingGates ?? []).flatMap(({ name }) => (name === preloadGateName ? [] : [name]));
}

/**
 * Pure. The clock of a group runs from the creation of the oldest pod that nobody else holds, or from the time at which
 * the first pod was free again; it stands while others hold all pods.
 */
export function gateClock(
  pods: readonly GatedMember[],
  timeoutMs: number,
  preload: CachePreload | undefined,
  now: number,
): GateClock {
  const written = preload?.metadata.annotations?.[clockAnnotation];
  const free = pods.filter((pod) => !isHeld(pod));
  if (free.length === 0) return { until: undefined, mark: written === held ? undefined : held };
  const begun = written === held ? now : Date.parse(written ?? '') || 0;
  const since = Math.max(begun, Math.min(...free.map(({ createdAt }) => createdAt)));
  return { until: since + timeoutMs, mark: written === held ? new Date(now).toISOString() : undefined };
}
