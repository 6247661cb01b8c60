import type { Pod } from '@hearth/common/kubernetes';
import type {
  Expression,
  LabelSelector,
  NodeSelectorTerm,
  PodGroup,
  Repulsion,
  RunningPod,
  TopologySpread,
} from './input.ts';
import { hostPorts, podRequests, runningRequests } from './requests.ts';
import { type UnmodelledOptions, unmodelled } from './unmodelled.ts';

/** The common part of all pods of a group. */
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

/** A pod that takes room of a node; undefined when it is bound to none or has ended. */
export function runningPod(pod: Pod): RunningPod | undefined {
  const { metadata, spec, status } = pod;
  if (!spec?.nodeName || status?.phase === 'Succeeded' || status?.phase === 'Failed') return undefined;
  const namespace = metadata?.namespace ?? '';
  const repels = (spec.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []).map(
    (term): Repulsion => ({
      topologyKey: term.topologyKey,
      // Which namespaces have which labels is not known here: rather no pod is steered there than one in vain.
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

/** A pod as a template for its group. */
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
    tolerations: (spec?.tolerations ?? []).map(({ key, operator, value, effect }) => ({
      key,
      operator,
      value,
      effect,
    })),
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

/** Such pods are made again where they were, and no other pod gets their room. */
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
