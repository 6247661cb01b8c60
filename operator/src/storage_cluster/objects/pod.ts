import type { Pod } from '@hearth/common/kubernetes';
import type { NodeGroup } from '@hearth/common/resources';
import type { BuildInput } from './desired_object.ts';

export type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];
export type VolumeMount = NonNullable<NonNullable<Pod['spec']>['containers'][number]['volumeMounts']>[number];

/** What the pods of nodes have in common. */
export function nodePod({ environment }: BuildInput, group: NodeGroup, excluded: readonly string[]) {
  return {
    // They have no business with Kubernetes.
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    nodeSelector: { 'kubernetes.io/os': 'linux', ...group.nodeSelector },
    ...(excluded.length === 0 ? {} : { affinity: avoiding(excluded) }),
    // A cache is for every pod of the node, whatever the node's taints.
    tolerations: [{ operator: 'Exists' }],
    priorityClassName: group.priorityClassName,
    ...pullSecrets(environment.imagePullSecrets),
  };
}

export function pullSecrets(names: readonly string[]) {
  return names.length === 0 ? {} : { imagePullSecrets: names.map((name) => ({ name })) };
}

/** A requirement of a node's name may hold one name only; all of a term must hold. */
function avoiding(nodes: readonly string[]) {
  const matchFields = [...nodes].sort().map((node) => ({ key: 'metadata.name', operator: 'NotIn', values: [node] }));
  return {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] } },
  };
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
