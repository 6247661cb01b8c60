import { startupTaintKey } from '@hearth/common/resources';
import type { PlannedNode, Taint, Toleration } from './input.ts';

/** As Kubernetes puts it on cordoned nodes, beside `spec.unschedulable`. */
const unschedulableTaint: Taint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };

/** Taints that keep pods away which do not tolerate them; being cordoned is one of them. */
export function refusals({ taints, unschedulable }: Pick<PlannedNode, 'taints' | 'unschedulable'>): Taint[] {
  const own = hardTaints(taints);
  return unschedulable ? [...own, unschedulableTaint] : own;
}

export function hardTaints(taints: readonly Taint[]): Taint[] {
  return taints.filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
}

export function softTaints(taints: readonly Taint[]): Taint[] {
  return taints.filter(({ effect }) => effect === 'PreferNoSchedule');
}

/** It goes when the agent of the node is ready, so it keeps pods away now, but not for good. */
export function isPassing({ key }: Taint): boolean {
  return key === startupTaintKey;
}

/**
 * k8s.io/api/core/v1, Toleration.ToleratesTaint. Tolerations that compare numbers tolerate nothing here: Kubernetes
 * knows them only where a feature is enabled.
 */
export function isTolerated(taint: Taint, tolerations: readonly Toleration[]): boolean {
  return tolerations.some(({ key = '', operator = '', value = '', effect = '' }) => {
    if (effect !== '' && effect !== taint.effect) return false;
    if (key !== '' && key !== taint.key) return false;
    if (operator === 'Exists') return true;
    return (operator === '' || operator === 'Equal') && value === (taint.value ?? '');
  });
}
