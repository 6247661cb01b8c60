import type { Pod } from '@hearth/common/kubernetes';
import { agentsLabel } from '@hearth/common/names';
import type { NodeGroup } from '@hearth/common/resources';
import { tolerationsOf } from '../../kubernetes/index.ts';
import type { PodSettings } from '../environment.ts';
import type { BuildInput } from './desired_object.ts';

export type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];
export type VolumeMount = NonNullable<NonNullable<Pod['spec']>['containers'][number]['volumeMounts']>[number];

/** The common part of pods on nodes. */
export function nodePod({ environment, cluster }: BuildInput, component: 'agent' | 'holder', group: NodeGroup) {
  const settings = environment.pods[component];
  return {
    ...serviceAccount(settings),
    // Neither program speaks to Kubernetes; `hearth explain` in an agent's pod does.
    automountServiceAccountToken: settings.mountsToken ?? false,
    enableServiceLinks: false,
    // Nodes of the group have it, and those that it has lost until their pods have gone.
    nodeSelector: { 'kubernetes.io/os': 'linux', [agentsLabel(cluster.metadata.name)]: group.name },
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

/** Device files of RDMA. A driver that is loaded later puts its own there, which a privileged pod does not get by itself. */
export const deviceFolder = '/dev/infiniband';

/**
 * Root of the machine: mounts that others see need it, and so do FUSE and its passthrough. It includes IPC_LOCK: RDMA pins
 * memory whatever the limit of locked memory is, which no pod can set.
 */
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
