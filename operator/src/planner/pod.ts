import type { Node, Pod } from '@hearth/common/kubernetes';
import { preloadGateName } from '@hearth/common/resources';
import type {
  Expression,
  LabelSelector,
  NodeSelectorTerm,
  PlannedNode,
  PodGroup,
  Repulsion,
  RunningPod,
  TopologySpread,
} from './input.ts';
import { amounts, hostPorts, podRequests, runningRequests } from './requests.ts';

export type PodTemplate = Pick<
  PodGroup,
  | 'namespace'
  | 'labels'
  | 'requests'
  | 'hostPorts'
  | 'nodeSelector'
  | 'requiredTerms'
  | 'preferredTerms'
  | 'tolerations'
  | 'spread'
  | 'unmodelled'
>;

type Spec = NonNullable<Pod['spec']>;
type Affinity = NonNullable<Spec['affinity']>;
type ApiTerm = NonNullable<
  NonNullable<Affinity['nodeAffinity']>['preferredDuringSchedulingIgnoredDuringExecution']
>[number]['preference'];
type ApiSelector = NonNullable<Spec['topologySpreadConstraints']>[number]['labelSelector'];

/** Undefined when the pod is unbound or has ended. */
export function runningPod(pod: Pod): RunningPod | undefined {
  const { metadata, spec, status } = pod;
  if (!spec?.nodeName || status?.phase === 'Succeeded' || status?.phase === 'Failed') return undefined;
  const namespace = metadata?.namespace ?? '';
  const repels = (spec.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []).map(
    (term): Repulsion => ({
      topologyKey: term.topologyKey,
      // Labels of namespaces are unknown here, so a namespace selector repels pods of all namespaces.
      ...(term.namespaceSelector ? {} : { namespaces: term.namespaces?.length ? term.namespaces : [namespace] }),
      selector: labelSelector(term.labelSelector),
    }),
  );
  return {
    namespace,
    labels: metadata?.labels ?? {},
    node: spec.nodeName,
    requests: runningRequests(pod),
    hostPorts: hostPorts(pod),
    deleting: metadata?.deletionTimestamp !== undefined,
    ...(isLasting(pod) ? { lasting: true } : {}),
    ...(repels.length > 0 ? { repels } : {}),
  };
}

export function podTemplate(pod: Pod, options: UnmodelledOptions): PodTemplate {
  const { metadata, spec } = pod;
  const affinity = spec?.affinity?.nodeAffinity;
  return {
    namespace: metadata?.namespace ?? '',
    labels: metadata?.labels ?? {},
    requests: podRequests(pod),
    hostPorts: hostPorts(pod),
    nodeSelector: spec?.nodeSelector ?? {},
    requiredTerms: affinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms.map(nodeSelectorTerm),
    preferredTerms: (affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ weight, preference }) => ({
      weight,
      term: nodeSelectorTerm(preference),
    })),
    tolerations: (spec?.tolerations ?? []).map(({ key, operator, value, effect }) => {
      return { key, operator, value, effect };
    }),
    spread: (spec?.topologySpreadConstraints ?? []).map(
      (constraint): TopologySpread => ({
        topologyKey: constraint.topologyKey,
        maxSkew: constraint.maxSkew,
        minDomains: constraint.minDomains,
        hard: constraint.whenUnsatisfiable !== 'ScheduleAnyway',
        selector: labelSelector(constraint.labelSelector),
        matchLabelKeys: constraint.matchLabelKeys ?? [],
        honorAffinity: constraint.nodeAffinityPolicy !== 'Ignore',
        honorTaints: constraint.nodeTaintsPolicy === 'Honor',
      }),
    ),
    unmodelled: unmodelled(pod, options),
  };
}

/** Such pods come back to their node, so no other pod gets their room. */
function isLasting({ metadata }: Pod): boolean {
  if (metadata?.annotations?.['kubernetes.io/config.mirror'] !== undefined) return true;
  return (
    metadata?.ownerReferences?.some(({ kind, controller }) => kind === 'DaemonSet' && controller === true) ?? false
  );
}

function nodeSelectorTerm({ matchExpressions, matchFields }: ApiTerm): NodeSelectorTerm {
  return { matchExpressions: expressions(matchExpressions), matchFields: expressions(matchFields) };
}

function labelSelector(selector: ApiSelector): LabelSelector | undefined {
  if (selector === undefined) return undefined;
  return { matchLabels: selector.matchLabels ?? {}, matchExpressions: expressions(selector.matchExpressions) };
}

function expressions(given: { key: string; operator: string; values?: string[] }[] = []): Expression[] {
  return given.map(({ key, operator, values = [] }) => ({ key, operator, values }));
}

/** A node without its agent, which Kubernetes does not know. */
export function plannedNode({ metadata, spec, status }: Node): Omit<PlannedNode, 'agent'> {
  return {
    name: metadata?.name ?? '',
    labels: metadata?.labels ?? {},
    taints: (spec?.taints ?? []).map(({ key, value, effect }) => ({ key, value, effect })),
    unschedulable: spec?.unschedulable ?? false,
    // The API server's default for missing allocatable resources.
    allocatable: amounts(status?.allocatable ?? status?.capacity),
  };
}

interface UnmodelledOptions {
  /** The pod mounts claims of other drivers, whose volumes may be bound to nodes or zones. */
  foreignVolumes: boolean;
}

/**
 * Features that restrict the nodes of a pod and that the planner does not model, for people. Preferences restrict
 * nothing, so they are left out.
 */
function unmodelled({ spec = { containers: [] } }: Pod, { foreignVolumes }: UnmodelledOptions): string[] {
  const scheduler = spec.schedulerName ?? 'default-scheduler';
  const { podAffinity, podAntiAffinity } = spec.affinity ?? {};
  const rules = [...spec.containers, ...(spec.initContainers ?? [])].flatMap(
    ({ restartPolicyRules = [] }) => restartPolicyRules,
  );
  const gates = (spec.schedulingGates ?? []).filter(({ name }) => name !== preloadGateName);
  const uses: [boolean, string][] = [
    // The owner of a gate may still narrow the nodes, as job queues do.
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
    // Nodes declare support for these (NodeDeclaredFeatures).
    [rules.some(({ action }) => action === 'RestartAllContainers'), 'restarts of all containers'],
    [spec.hostNetwork === true && spec.hostUsers === false, "the host's network in a user namespace"],
  ];
  return uses.flatMap(([used, what]) => (used ? [what] : []));
}

function isRequired(affinity: { requiredDuringSchedulingIgnoredDuringExecution?: object[] } | undefined): boolean {
  return (affinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []).length > 0;
}
