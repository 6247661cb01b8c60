import type { Pod } from '@hearth/common/kubernetes';
import { preloadGateName } from '@hearth/common/resources';

export interface UnmodelledOptions {
  /** It mounts claims of others than Hearth, whose volumes may be bound to nodes or zones. */
  foreignVolumes: boolean;
}

/**
 * Features of a pod that decide where it can run and that the planner does not know, in words for people. Wishes, such
 * as preferred affinity to other pods, are left out: they keep a pod from no node.
 */
export function unmodelled({ spec = { containers: [] } }: Pod, { foreignVolumes }: UnmodelledOptions): string[] {
  const scheduler = spec.schedulerName ?? 'default-scheduler';
  const { podAffinity, podAntiAffinity } = spec.affinity ?? {};
  const rules = [...spec.containers, ...(spec.initContainers ?? [])].flatMap(
    ({ restartPolicyRules = [] }) => restartPolicyRules,
  );
  const gates = (spec.schedulingGates ?? []).filter(({ name }) => name !== preloadGateName);
  const uses: [boolean, string][] = [
    // The owner of a gate may narrow down where the pod can run until it opens the gate, as queues for jobs do.
    [gates.length > 0, 'gates of others'],
    [scheduler !== 'default-scheduler', `scheduler ${scheduler}`],
    [(spec.resourceClaims ?? []).length > 0, 'resource claims'],
    [spec.schedulingGroup !== undefined, 'a scheduling group'],
    [isRequired(podAffinity), 'affinity to other pods'],
    [isRequired(podAntiAffinity), 'anti-affinity to other pods'],
    [foreignVolumes, 'volumes of other drivers'],
    [
      spec.tolerations?.some(({ operator }) => operator === 'Lt' || operator === 'Gt') ?? false,
      'tolerations that compare',
    ],
    // Nodes declare whether they can do these (NodeDeclaredFeatures).
    [rules.some(({ action }) => action === 'RestartAllContainers'), 'restarts of all containers'],
    [spec.hostNetwork === true && spec.hostUsers === false, "the host's network in a user namespace"],
  ];
  return uses.flatMap(([used, what]) => (used ? [what] : []));
}

function isRequired(affinity: { requiredDuringSchedulingIgnoredDuringExecution?: object[] } | undefined): boolean {
  return (affinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []).length > 0;
}
