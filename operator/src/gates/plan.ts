import type { AffinityPlan, GroupPlan, ReleaseReason, RunningPod } from '../planner/index.ts';
import type { UnplannedGroup } from './pod_group.ts';

export type PlanBytes = { presentBytes: number; missingBytes: number };

/** The plan for all pods of a group. Maps are keyed by pod name, `bytes` by node. */
export type Plan = {
  pods: ReadonlySet<string>;
  message: string;
} & (
  | { kind: 'release'; reason: ReleaseReason }
  | {
      kind: 'warm';
      nodes: readonly string[];
      affinity: ReadonlyMap<string, AffinityPlan>;
      /** The room that each pod will take. Pods that fit nowhere now are absent. */
      expected: ReadonlyMap<string, RunningPod>;
      bytes: ReadonlyMap<string, PlanBytes>;
    }
);

/** Pure. One part that cannot wait releases the whole group. Undefined when a part has no plan. */
export function planOfParts(
  parts: readonly UnplannedGroup[],
  plans: ReadonlyMap<string, GroupPlan>,
  bytesOf: (dataset: string) => number,
): Plan | undefined {
  const pods = new Set(parts.flatMap((part) => part.pods));
  const nodes = new Map<string, PlanBytes>();
  const wantedBytes = (parts[0]?.datasets ?? []).reduce((sum, dataset) => sum + bytesOf(dataset), 0);
  const affinity = new Map<string, AffinityPlan>();
  const expected = new Map<string, RunningPod>();
  const messages: string[] = [];
  for (const part of parts) {
    const plan = plans.get(part.key);
    if (plan === undefined) return undefined;
    if (plan.kind === 'release') return { ...plan, pods };
    for (const { node, missingBytes } of plan.nodes) {
      const missing = Object.values(missingBytes).reduce((sum, bytes) => sum + bytes, 0);
      nodes.set(node, { presentBytes: Math.max(0, wantedBytes - missing), missingBytes: missing });
    }
    for (const pod of part.pods) {
      affinity.set(pod, plan.affinity);
      const node = plan.assignment.get(pod);
      const { namespace, labels, requests, hostPorts } = part;
      if (node !== undefined) expected.set(pod, { namespace, labels, node, requests, hostPorts, deleting: false });
    }
    messages.push(plan.message);
  }
  return {
    kind: 'warm',
    pods,
    nodes: [...nodes.keys()],
    affinity,
    expected,
    bytes: nodes,
    message: messages.join('; '),
  };
}
