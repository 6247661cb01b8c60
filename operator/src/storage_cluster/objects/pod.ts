import { type DaemonSet, kinds, type Pod } from '@hearth/common/kubernetes';
import type { NodeGroup } from '@hearth/common/resources';
import { daemonTerms } from '../../kubernetes/index.ts';
import type { PodSettings } from '../environment.ts';
import { labelsOf, selectorOf } from '../names.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';

export type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];
export type VolumeMount = NonNullable<NonNullable<Pod['spec']>['containers'][number]['volumeMounts']>[number];

type Container = NonNullable<Pod['spec']>['containers'][number];

/** The fields in which agents and holders of a node group differ. */
export interface NodePods {
  name: string;
  annotations?: Record<string, string>;
  updateStrategy: object;
  pod?: object;
  container: Omit<Container, 'name' | 'image'>;
  volumes: Volume[];
}

/** Pods on every node of a group, with one container named after the component. */
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
      ...account(settings),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: daemonTerms(cluster, group) },
        },
      },
      // Taints are input of the operator's placement: none that comes later ends an agent before its node has drained.
      tolerations: [{ operator: 'Exists' }],
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
          // The status of the StorageCluster shows this message.
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

/** The values' labels and annotations; `labels` and `own` win. */
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

/**
 * Both names of the field: Kubernetes fills in the deprecated one, which then keeps the account when a release that names
 * none applies the object again, as 0.1.0 does after a rollback, whose chart deletes the account.
 */
export function account({ serviceAccountName }: PodSettings) {
  return { serviceAccountName, serviceAccount: serviceAccountName };
}

export function pullSecrets(names: readonly string[]) {
  return names.length === 0 ? {} : { imagePullSecrets: names.map((name) => ({ name })) };
}

/** Device files of RDMA. A privileged pod does not get devices of drivers loaded later. */
export const deviceFolder = '/dev/infiniband';

/**
 * Needed for shared mounts, FUSE and passthrough. Includes IPC_LOCK: RDMA pins memory beyond the limit of locked
 * memory, which no pod can set.
 */
const root = { runAsUser: 0, runAsGroup: 0, runAsNonRoot: false } as const;
const privileged = { privileged: true, ...root, readOnlyRootFilesystem: true } as const;

export const hostFolder = (name: string, path: string): Volume => {
  return { name, hostPath: { path, type: 'DirectoryOrCreate' } };
};
export const sharedMount = (name: string, path: string): VolumeMount => {
  return { name, mountPath: path, mountPropagation: 'Bidirectional' };
};
export const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } });
