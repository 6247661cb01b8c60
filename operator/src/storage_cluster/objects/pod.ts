import { type DaemonSet, kinds, type Pod } from '@hearth/common/kubernetes';
import { agentsLabel } from '@hearth/common/names';
import type { NodeGroup } from '@hearth/common/resources';
import { tolerationsOf } from '../../kubernetes/index.ts';
import type { PodSettings } from '../environment.ts';
import { labelsOf, selectorOf } from '../names.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';

export type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];
export type VolumeMount = NonNullable<NonNullable<Pod['spec']>['containers'][number]['volumeMounts']>[number];

type Container = NonNullable<Pod['spec']>['containers'][number];

/** The differences between agents and holders of a node group. */
export interface NodePods {
  name: string;
  /** Beside those of the values. */
  annotations?: Record<string, string>;
  updateStrategy: object;
  /** Beside the fields that all pods on nodes have. */
  pod?: object;
  container: Omit<Container, 'name' | 'image'>;
  volumes: Volume[];
}

/** Pods with one container, of the name of their component, on every node of a group. */
export function nodeDaemonSet(
  input: BuildInput & { group: NodeGroup },
  component: 'agent' | 'holder',
  { name, annotations, updateStrategy, pod, container, volumes }: NodePods,
): DesiredObject<DaemonSet> {
  const { environment, cluster, group } = input;
  const settings = environment.pods[component];
  const labels = labelsOf(cluster.metadata.name, component, group.name);
  const template = {
    metadata: podMetadata(settings, labels, annotations),
    spec: {
      ...serviceAccount(settings),
      // Neither program speaks to Kubernetes; `hearth explain` in an agent's pod does.
      automountServiceAccountToken: settings.mountsToken ?? false,
      enableServiceLinks: false,
      // Nodes of the group have it, and those that it has lost until their pods have gone.
      nodeSelector: { 'kubernetes.io/os': 'linux', [agentsLabel(cluster.metadata.name)]: group.name },
      tolerations: tolerationsOf(group),
      priorityClassName: group.priorityClassName,
      ...pullSecrets(environment.imagePullSecrets),
      ...pod,
      terminationGracePeriodSeconds: 30,
      containers: [
        {
          name: component,
          image: cluster.spec.image ?? environment.image,
          imagePullPolicy: environment.imagePullPolicy,
          ...container,
          securityContext: privileged,
          // The StorageCluster shows the last words of a process.
          terminationMessagePolicy: 'FallbackToLogsOnError',
        },
      ],
      volumes,
    },
  };
  const selector = { matchLabels: selectorOf(cluster.metadata.name, component, group.name) };
  const spec = { selector, updateStrategy, revisionHistoryLimit: 3, template };
  return desiredObject(input, kinds.DaemonSet, name, labels, { spec });
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
const privileged = {
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
