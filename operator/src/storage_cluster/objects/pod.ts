import type { Pod } from '@hearth/common/kubernetes';
import type { NodeGroup } from '@hearth/common/resources';
import { type Expression, noVirtualNode, termsOf, tolerationsOf } from '../../kubernetes/index.ts';
import type { PodSettings } from '../environment.ts';
import type { BuildInput } from './desired_object.ts';

export type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];
export type VolumeMount = NonNullable<NonNullable<Pod['spec']>['containers'][number]['volumeMounts']>[number];

/** What the pods of nodes have in common. */
export function nodePod(
  { environment }: BuildInput,
  component: 'agent' | 'holder',
  group: NodeGroup,
  excluded: readonly string[],
) {
  const settings = environment.pods[component];
  return {
    ...serviceAccount(settings),
    // Neither program speaks to Kubernetes; `hearth explain` in an agent's pod does.
    automountServiceAccountToken: settings.mountsToken ?? false,
    enableServiceLinks: false,
    nodeSelector: { 'kubernetes.io/os': 'linux', ...group.nodeSelector },
    affinity: affinityOf(group, excluded),
    tolerations: tolerationsOf(group),
    priorityClassName: group.priorityClassName,
    ...pullSecrets(environment.imagePullSecrets),
  };
}

/** Labels and annotations of a pod: those of the values, over which its own stand. */
export function podMetadata(
  { podLabels, podAnnotations }: PodSettings,
  labels: Record<string, string>,
  own: Record<string, string> = {},
) {
  const annotations = { ...podAnnotations, ...own };
  return {
    labels: { ...podLabels, ...labels },
    ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
  };
}

export function serviceAccount({ serviceAccountName }: PodSettings) {
  return serviceAccountName === undefined ? {} : { serviceAccountName };
}

export function pullSecrets(names: readonly string[]) {
  return names.length === 0 ? {} : { imagePullSecrets: names.map((name) => ({ name })) };
}

/**
 * What the group asks for, on machines, and not on nodes of others: terms are alternatives, so each has all of it. A
 * requirement of a node's name may hold one name only.
 */
function affinityOf(group: NodeGroup, excluded: readonly string[]) {
  const names = [...excluded].sort().map((node) => ({ key: 'metadata.name', operator: 'NotIn', values: [node] }));
  const matchFields = names.length === 0 ? {} : { matchFields: names };
  const terms = termsOf(group);
  const nodeSelectorTerms = (terms.length === 0 ? [{ matchExpressions: [] }] : terms).map(({ matchExpressions }) => ({
    matchExpressions: [...matchExpressions, ...noVirtualNode].map(expression),
    ...matchFields,
  }));
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
}

/** The API server keeps no empty list, so one that is written would look like drift. */
function expression({ key, operator, values }: Expression) {
  return { key, operator, ...(values.length === 0 ? {} : { values: [...values] }) };
}

/** Root of the machine: mounts that others see need it, and so do FUSE and its passthrough. */
export const privileged = {
  privileged: true,
  runAsUser: 0,
  runAsGroup: 0,
  runAsNonRoot: false,
  readOnlyRootFilesystem: true,
} as const;

export const hostFolder = (name: string, path: string): Volume => ({
  name,
  hostPath: { path, type: 'DirectoryOrCreate' },
});
export const sharedMount = (name: string, path: string): VolumeMount => ({
  name,
  mountPath: path,
  mountPropagation: 'Bidirectional',
});
export const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });
