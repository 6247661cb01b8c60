import type { Node } from '@hearth/common/kubernetes';
import type { PlannedNode } from './input.ts';
import { amounts } from './requests.ts';

/** The planner's facts about a node, without its agent, of which Kubernetes knows nothing. */
export function plannedNode({ metadata, spec, status }: Node): Omit<PlannedNode, 'agent'> {
  return {
    name: metadata?.name ?? '',
    labels: metadata?.labels ?? {},
    taints: (spec?.taints ?? []).map(({ key, value, effect }) => ({ key, value, effect })),
    unschedulable: spec?.unschedulable ?? false,
    // As the API server does where only the capacity is given.
    allocatable: amounts(status?.allocatable ?? status?.capacity),
  };
}
