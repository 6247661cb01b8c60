import type { Pod } from '@hearth/common/kubernetes';
import type { AffinityPlan } from '../planner/index.ts';

type NodeAffinity = NonNullable<NonNullable<NonNullable<Pod['spec']>['affinity']>['nodeAffinity']>;

export const hostnameLabel = 'kubernetes.io/hostname';
/** The highest that there is, so that no other wish outweighs bytes that are there. */
const preferredWeight = 100;

/**
 * Pure. The node affinity of a pod with that of its plan added; undefined: nothing is to be added. While a pod is gated
 * its affinity may only become narrower (Kubernetes' validation of updates): wishes may be added freely, a requirement is
 * added to every term that there is, or stands alone when there is none. A term without any expression matches no node,
 * and must stay as it is.
 */
export function withPlan(present: NodeAffinity | undefined, plan: AffinityPlan): NodeAffinity | undefined {
  if (plan.hostnames.length === 0) return undefined;
  const here = { key: hostnameLabel, operator: 'In', values: [...plan.hostnames] };
  if (plan.kind === 'Preferred') {
    const preferred = present?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
    const wish = { weight: preferredWeight, preference: { matchExpressions: [here] } };
    return { ...present, preferredDuringSchedulingIgnoredDuringExecution: [...preferred, wish] };
  }
  const terms = present?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const narrower = terms.map((term) => {
    const { matchExpressions = [], matchFields = [] } = term;
    if (matchExpressions.length === 0 && matchFields.length === 0) return term;
    return { ...term, matchExpressions: [...matchExpressions, here] };
  });
  const nodeSelectorTerms = terms.length === 0 ? [{ matchExpressions: [here] }] : narrower;
  return { ...present, requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
}
