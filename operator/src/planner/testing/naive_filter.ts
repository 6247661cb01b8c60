import type {
  Expression,
  LabelSelector,
  NodeSelectorTerm,
  PlannedNode,
  PodGroup,
  RunningPod,
  Taint,
  Toleration,
  TopologySpread,
} from '../input.ts';

/**
 * The reference for the planner: decides if the scheduler lets a pod onto a node, written from the documentation of
 * Kubernetes (Assigning Pods to Nodes, Taints and Tolerations, Pod Topology Spread Constraints, Resource Management)
 * for one pod and one node at a time, with nothing prepared and nothing shared with the planner.
 */
export interface World {
  nodes: readonly PlannedNode[];
  placed: readonly RunningPod[];
}

export type Candidate = Pick<
  PodGroup,
  'namespace' | 'labels' | 'requests' | 'hostPorts' | 'nodeSelector' | 'requiredTerms' | 'tolerations' | 'spread'
>;

/** The name of the filter that refuses the pod; undefined: it can go there now. */
export function refusedNow(pod: Candidate, node: PlannedNode, world: World): string | undefined {
  const there = world.placed.filter((other) => other.node === node.name);
  if (cordoned(pod, node)) return 'NodeUnschedulable';
  if (!node.taints.every((taint) => harmless(taint) || tolerated(taint, pod.tolerations))) return 'TaintToleration';
  if (!wanted(pod, node)) return 'NodeAffinity';
  if (there.some((other) => portsClash(pod, other))) return 'NodePorts';
  if (!fits(pod, node, there)) return 'NodeResourcesFit';
  if (!pod.spread.every((constraint) => !constraint.hard || spreads(constraint, pod, node, world))) {
    return 'PodTopologySpread';
  }
  if (world.placed.some((other) => repelled(pod, node, other, world))) return 'InterPodAffinity';
  return undefined;
}

/**
 * The same for a node on which only pods run that stay as long as it does, and whose startup taint goes, since an agent
 * is there. How pods are spread over the cluster then is not known.
 */
export function refusedEver(pod: Candidate, node: PlannedNode, world: World): string | undefined {
  const joined = node.agent
    ? { ...node, taints: node.taints.filter(({ key }) => key !== 'hearth.storage/agent-not-ready') }
    : node;
  if (pod.spread.some(({ hard, topologyKey }) => hard && node.labels[topologyKey] === undefined)) {
    return 'PodTopologySpread';
  }
  const placed = world.placed.filter(({ lasting }) => lasting).map((other) => ({ ...other, repels: [] }));
  return refusedNow({ ...pod, spread: [] }, joined, { nodes: world.nodes, placed });
}

function cordoned({ tolerations }: Candidate, node: PlannedNode): boolean {
  const taint = { key: 'node.kubernetes.io/unschedulable', value: '', effect: 'NoSchedule' };
  return node.unschedulable && !tolerated(taint, tolerations);
}

function harmless({ effect }: Taint): boolean {
  return effect === 'PreferNoSchedule';
}

function tolerated(taint: Taint, tolerations: readonly Toleration[]): boolean {
  for (const toleration of tolerations) {
    const keyMatches = !toleration.key || toleration.key === taint.key;
    const effectMatches = !toleration.effect || toleration.effect === taint.effect;
    const valueMatches =
      toleration.operator === 'Exists' ||
      ((toleration.operator ?? 'Equal') === 'Equal' && (toleration.value ?? '') === (taint.value ?? ''));
    if (keyMatches && effectMatches && valueMatches) return true;
  }
  return false;
}

function wanted({ nodeSelector, requiredTerms }: Candidate, node: PlannedNode): boolean {
  for (const key of Object.keys(nodeSelector)) if (node.labels[key] !== nodeSelector[key]) return false;
  if (requiredTerms === undefined) return true;
  return requiredTerms.some((term) => termMatches(term, node));
}

function termMatches({ matchExpressions, matchFields }: NodeSelectorTerm, node: PlannedNode): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  return (
    matchExpressions.every((one) => expressionMatches(one, node.labels)) &&
    matchFields.every((one) => expressionMatches(one, { 'metadata.name': node.name }))
  );
}

function expressionMatches({ key, operator, values }: Expression, labels: Readonly<Record<string, string>>): boolean {
  const present = Object.hasOwn(labels, key);
  const value = labels[key] ?? '';
  if (operator === 'Exists') return present;
  if (operator === 'DoesNotExist') return !present;
  if (operator === 'In') return present && values.some((one) => one === value);
  if (operator === 'NotIn') return !present || values.every((one) => one !== value);
  const isNumber = /^-?\d+$/.test(value);
  if (operator === 'Gt') return present && isNumber && Number(value) > Number(values[0]);
  if (operator === 'Lt') return present && isNumber && Number(value) < Number(values[0]);
  throw new Error(`no operator ${operator}`);
}

function portsClash(pod: Candidate, other: RunningPod): boolean {
  for (const mine of pod.hostPorts) {
    for (const theirs of other.hostPorts) {
      if (mine.port !== theirs.port || mine.protocol !== theirs.protocol) continue;
      if (mine.ip === theirs.ip || mine.ip === '0.0.0.0' || theirs.ip === '0.0.0.0') return true;
    }
  }
  return false;
}

function fits(pod: Candidate, node: PlannedNode, there: readonly RunningPod[]): boolean {
  if (there.length + 1 > (node.allocatable.pods ?? 0)) return false;
  for (const [name, amount] of Object.entries(pod.requests)) {
    if (name === 'pods' || amount === 0) continue;
    let used = 0;
    for (const other of there) used += other.requests[name] ?? 0;
    if (used + amount > (node.allocatable[name] ?? 0)) return false;
  }
  return true;
}

function labelsMatch(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  for (const [key, value] of Object.entries(selector.matchLabels)) if (labels[key] !== value) return false;
  return selector.matchExpressions.every((one) => expressionMatches(one, labels));
}

/** "maxSkew is the maximum permitted difference between the number of matching pods in the target topology and the global minimum." */
function spreads(constraint: TopologySpread, pod: Candidate, node: PlannedNode, { nodes, placed }: World): boolean {
  const hardKeys = pod.spread.filter(({ hard }) => hard).map(({ topologyKey }) => topologyKey);
  const domain = node.labels[constraint.topologyKey];
  if (domain === undefined) return false;
  const eligible = nodes.filter(
    (one) =>
      hardKeys.every((key) => one.labels[key] !== undefined) &&
      (!constraint.honorAffinity || wanted(pod, one)) &&
      (!constraint.honorTaints || one.taints.every((taint) => harmless(taint) || tolerated(taint, pod.tolerations))),
  );
  const matches = (labels: Readonly<Record<string, string>>) =>
    constraint.selector !== undefined &&
    labelsMatch(constraint.selector, labels) &&
    constraint.matchLabelKeys.every((key) => pod.labels[key] === undefined || pod.labels[key] === labels[key]);
  // A selector that is there but asks for nothing: kube-scheduler counts no pod by it.
  const empty =
    constraint.selector !== undefined &&
    Object.keys(constraint.selector.matchLabels).length + constraint.selector.matchExpressions.length === 0 &&
    constraint.matchLabelKeys.every((key) => pod.labels[key] === undefined);
  const counts = new Map<string, number>();
  for (const one of eligible) {
    const where = one.labels[constraint.topologyKey] as string;
    const here = placed.filter(
      (other) =>
        other.node === one.name && other.namespace === pod.namespace && !other.deleting && matches(other.labels),
    );
    counts.set(where, (counts.get(where) ?? 0) + (empty ? 0 : here.length));
  }
  const least = counts.size < (constraint.minDomains ?? 1) ? 0 : Math.min(...counts.values());
  return (counts.get(domain) ?? 0) + (matches(pod.labels) ? 1 : 0) - least <= constraint.maxSkew;
}

function repelled(pod: Candidate, node: PlannedNode, other: RunningPod, { nodes }: World): boolean {
  const home = nodes.find(({ name }) => name === other.node);
  return (other.repels ?? []).some(
    ({ topologyKey, namespaces, selector }) =>
      (namespaces === undefined || namespaces.includes(pod.namespace)) &&
      selector !== undefined &&
      labelsMatch(selector, pod.labels) &&
      home?.labels[topologyKey] !== undefined &&
      home.labels[topologyKey] === node.labels[topologyKey],
  );
}
