import type { Node, Pod } from '@hearth/common/kubernetes';
import { preloadGateName } from '@hearth/common/resources';
import type { Amounts, LabelSelector, NodeSelectorTerm, PlannedNode, PodGroup, RunningPod } from '../index.ts';

/** Objects of the API of which the planner's adapters make what they are made from. */

/** Of pods that are to be seen while they are deleted. */
const holdingFinalizer = 'hearth.test/hold';

export function nodeObject({ name, labels, taints, unschedulable, allocatable }: PlannedNode): Node {
  return {
    metadata: { name, labels: { ...labels } },
    spec: {
      unschedulable,
      taints: taints.map(({ key, value, effect }) => ({ key, effect, ...(value ? { value } : {}) })),
    },
    status: { allocatable: quantities(allocatable) },
  };
}

export function runningObject(name: string, pod: RunningPod): Pod {
  const repels = (pod.repels ?? []).map(({ topologyKey, namespaces, selector }) => ({
    topologyKey,
    ...(namespaces === undefined ? { namespaceSelector: {} } : { namespaces: [...namespaces] }),
    ...(selector === undefined ? {} : { labelSelector: labelSelector(selector) }),
  }));
  const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'lasting', uid: 'lasting', controller: true };
  return {
    metadata: {
      name,
      labels: { ...pod.labels },
      ...(pod.lasting === true ? { ownerReferences: [owner] } : {}),
      // Keeps it on its way out.
      ...(pod.deleting ? { finalizers: [holdingFinalizer] } : {}),
    },
    spec: {
      nodeName: pod.node,
      containers: [container(pod)],
      affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: repels } },
    },
  };
}

/** The pods of a group as the webhook leaves them: held back by our gate. */
export function gatedObjects(group: PodGroup): Pod[] {
  const { nodeSelector, requiredTerms, tolerations, spread } = group;
  const affinity = requiredTerms && {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: requiredTerms.map(nodeSelectorTerm) },
    },
  };
  return group.pods.map((name) => ({
    metadata: { name, labels: { ...group.labels } },
    spec: {
      containers: [container(group)],
      schedulingGates: [{ name: preloadGateName }],
      nodeSelector: { ...nodeSelector },
      ...(affinity === undefined ? {} : { affinity }),
      tolerations: tolerations.map(defined),
      topologySpreadConstraints: spread.map((one) => ({
        topologyKey: one.topologyKey,
        maxSkew: one.maxSkew,
        ...(one.minDomains === undefined ? {} : { minDomains: one.minDomains }),
        whenUnsatisfiable: one.hard ? 'DoNotSchedule' : 'ScheduleAnyway',
        ...(one.selector === undefined ? {} : { labelSelector: labelSelector(one.selector) }),
        matchLabelKeys: [...one.matchLabelKeys],
        nodeAffinityPolicy: one.honorAffinity ? 'Honor' : 'Ignore',
        nodeTaintsPolicy: one.honorTaints ? 'Honor' : 'Ignore',
      })),
    },
  }));
}

function container({ requests, hostPorts }: Pick<PodGroup, 'requests' | 'hostPorts'>) {
  const asked = quantities(requests);
  return {
    name: 'main',
    image: 'none',
    // Kubernetes wants a limit for what cannot be shared.
    resources: { requests: asked, limits: pick(asked, (name) => name.includes('/')) },
    ports: hostPorts.map(({ ip, protocol, port }) => ({ hostIP: ip, protocol, hostPort: port, containerPort: port })),
  };
}

function quantities(amounts: Amounts): Record<string, string> {
  const entries = Object.entries(amounts).map(([name, amount]) => [
    name,
    name === 'cpu' ? `${amount}m` : String(amount),
  ]);
  return Object.fromEntries(entries);
}

function pick<T>(values: Record<string, T>, wanted: (name: string) => boolean): Record<string, T> {
  return Object.fromEntries(Object.entries(values).filter(([name]) => wanted(name)));
}

function nodeSelectorTerm({ matchExpressions, matchFields }: NodeSelectorTerm) {
  return { matchExpressions: matchExpressions.map(copied), matchFields: matchFields.map(copied) };
}

function labelSelector({ matchLabels, matchExpressions }: LabelSelector) {
  return { matchLabels: { ...matchLabels }, matchExpressions: matchExpressions.map(copied) };
}

function copied({ key, operator, values }: { key: string; operator: string; values: readonly string[] }) {
  return { key, operator, values: [...values] };
}

function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return JSON.parse(JSON.stringify(value));
}
