import { startupTaintKey } from '@hearth/common/resources';
import { hardTaints, type Taint } from '../kubernetes/index.ts';
import type { PlannedNode } from './input.ts';

/** As Kubernetes puts it on cordoned nodes, beside `spec.unschedulable`. */
const unschedulableTaint: Taint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };

/** Taints that keep pods away which do not tolerate them; being cordoned is one of them. */
export function refusals({ taints, unschedulable }: Pick<PlannedNode, 'taints' | 'unschedulable'>): Taint[] {
  const own = hardTaints(taints);
  return unschedulable ? [...own, unschedulableTaint] : own;
}

export function softTaints(taints: readonly Taint[]): Taint[] {
  return taints.filter(({ effect }) => effect === 'PreferNoSchedule');
}

/** It goes when the agent of the node is ready, so it keeps pods away now, but not for good. */
export function isPassing({ key }: Taint): boolean {
  return key === startupTaintKey;
}
