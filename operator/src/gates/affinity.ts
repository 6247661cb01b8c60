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
  const preferred = present?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  if (plan.kind === 'Preferred') {
    return { ...present, preferredDuringSchedulingIgnoredDuringExecution: [...preferred, wish(plan.hostnames)] };
  }
  const here = onHosts(plan.hostnames);
  const terms = present?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const narrower = terms.map((term) => {
    const { matchExpressions = [], matchFields = [] } = term;
    if (matchExpressions.length === 0 && matchFields.length === 0) return term;
    return { ...term, matchExpressions: [...matchExpressions, here] };
  });
  const nodeSelectorTerms = terms.length === 0 ? [{ matchExpressions: [here] }] : narrower;
  const { wished = [] } = plan;
  return {
    ...present,
    ...(wished.length > 0 ? { preferredDuringSchedulingIgnoredDuringExecution: [...preferred, wish(wished)] } : {}),
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms },
  };
}

function wish(hostnames: readonly string[]) {
  return { weight: preferredWeight, preference: { matchExpressions: [onHosts(hostnames)] } };
}

function onHosts(hostnames: readonly string[]) {
  return { key: hostnameLabel, operator: 'In', values: [...hostnames] };
}
