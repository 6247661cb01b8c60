import { kinds, type PodDisruptionBudget, type StatefulSet } from '@hearth/common/kubernetes';
import { startupTaintKeys } from '@hearth/common/resources';
import type { PodSettings } from '../environment.ts';
import {
  etcdMemberName,
  etcdPeerName,
  etcdPeersName,
  etcdSetName,
  labelsOf,
  secretName,
  selectorOf,
} from '../names.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';
import { account, field, podMetadata, pullSecrets } from './pod.ts';

const certificates = '/etc/etcd/tls';
const dataFolder = '/var/lib/etcd';
const user = 65_532;

/**
 * etcd for a cluster without external endpoints: mutual TLS on all ports but metrics. All data can be rebuilt.
 * `addresses`: the members' Services, in order; empty for one member. A new `trustHash` replaces the pods one by one.
 */
export function etcdStatefulSet(
  input: BuildInput,
  addresses: readonly string[],
  trustHash: string | undefined,
): DesiredObject<StatefulSet> {
  const { cluster, environment } = input;
  const { name } = cluster.metadata;
  const { replicas = 1, storage = { emptyDir: {} } } = cluster.spec.store.etcd ?? {};
  const labels = labelsOf(name, 'etcd');
  const settings = environment.pods.etcd;
  const onVolume = storage.size !== undefined;
  const template = {
    metadata: podMetadata(settings, labels, trustHash === undefined ? {} : { 'hearth.storage/trust-hash': trustHash }),
    spec: {
      ...account(settings),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      nodeSelector: { 'kubernetes.io/os': 'linux', ...settings.nodeSelector },
      // The operator removes the taint when agents are ready, which need their store.
      tolerations: [...(settings.tolerations ?? []), ...startupTaintKeys.map((key) => ({ key, operator: 'Exists' }))],
      priorityClassName: settings.priorityClassName ?? 'system-cluster-critical',
      terminationGracePeriodSeconds: 30,
      ...affinity(settings, replicas > 1 ? apart(selectorOf(name, 'etcd')) : {}),
      ...pullSecrets(environment.imagePullSecrets),
      ...(addresses.length > 0 ? { hostAliases: hostAliases(name, environment.namespace, addresses) } : {}),
      securityContext: {
        runAsNonRoot: true,
        ...(settings.anyUser ? {} : { runAsUser: user, runAsGroup: user, fsGroup: user }),
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [
        {
          name: 'etcd',
          image: environment.etcdImage,
          imagePullPolicy: environment.imagePullPolicy,
          command: ['etcd', ...etcdArguments(name, environment.namespace, cluster.metadata.uid ?? '', replicas)],
          env: [field('POD_NAME', 'metadata.name'), ...settings.extraEnv],
          ports: [
            { name: 'client', containerPort: 2379, protocol: 'TCP' },
            { name: 'peer', containerPort: 2380, protocol: 'TCP' },
            { name: 'metrics', containerPort: 2381, protocol: 'TCP' },
          ],
          startupProbe: { ...probe('/livez'), periodSeconds: 2, failureThreshold: 60 },
          livenessProbe: { ...probe('/livez'), periodSeconds: 10, failureThreshold: 6 },
          readinessProbe: { ...probe('/readyz'), periodSeconds: 2, failureThreshold: 3 },
          resources: settings.resources ?? { requests: { cpu: '50m', memory: '128Mi' } },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          terminationMessagePolicy: 'FallbackToLogsOnError',
          volumeMounts: [
            { name: 'data', mountPath: dataFolder },
            { name: 'certificates', mountPath: certificates, readOnly: true },
          ],
        },
      ],
      volumes: [
        { name: 'certificates', secret: { secretName: secretName(name, 'etcd'), defaultMode: 0o440 } },
        ...(onVolume ? [] : [{ name: 'data', emptyDir: {} }]),
      ],
    },
  };
  const spec = {
    replicas,
    serviceName: etcdPeersName(name),
    // New members become ready only together.
    podManagementPolicy: 'Parallel',
    selector: { matchLabels: selectorOf(name, 'etcd') },
    updateStrategy: { type: 'RollingUpdate' },
    revisionHistoryLimit: 3,
    template,
    ...(onVolume ? volumeClaims(storage.size ?? '', storage.storageClassName, labels) : {}),
  };
  return desiredObject(input, kinds.StatefulSet, etcdSetName(name), labels, { spec } as never);
}

/** Evicts one member at a time; an unhealthy member does not block a drain. */
export function etcdDisruptionBudget(input: BuildInput): DesiredObject<PodDisruptionBudget> {
  const { name } = input.cluster.metadata;
  return desiredObject(input, kinds.PodDisruptionBudget, etcdSetName(name), labelsOf(name, 'etcd'), {
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: selectorOf(name, 'etcd') },
    },
  });
}

/** Flags of etcd (etcd.io/docs/v3.6/op-guide/configuration). `token` distinguishes clusters of one name. */
export function etcdArguments(cluster: string, namespace: string, token: string, replicas: number): string[] {
  // A single member needs no name for peers.
  const host = (member: string) => (replicas === 1 ? '127.0.0.1' : etcdPeerName(cluster, namespace, member));
  const members = Array.from({ length: replicas }, (_, index) => etcdMemberName(cluster, index));
  return [
    '--name=$(POD_NAME)',
    `--data-dir=${dataFolder}/data`,
    '--listen-client-urls=https://0.0.0.0:2379',
    `--advertise-client-urls=https://${host('$(POD_NAME)')}:2379`,
    '--listen-peer-urls=https://0.0.0.0:2380',
    `--initial-advertise-peer-urls=https://${host('$(POD_NAME)')}:2380`,
    `--initial-cluster=${members.map((member) => `${member}=https://${host(member)}:2380`).join(',')}`,
    `--initial-cluster-token=${token}`,
    '--listen-metrics-urls=http://0.0.0.0:2381',
    `--cert-file=${certificates}/tls.crt`,
    `--key-file=${certificates}/tls.key`,
    `--trusted-ca-file=${certificates}/ca.crt`,
    '--client-cert-auth=true',
    `--peer-cert-file=${certificates}/tls.crt`,
    `--peer-key-file=${certificates}/tls.key`,
    `--peer-trusted-ca-file=${certificates}/ca.crt`,
    '--peer-client-cert-auth=true',
    // The authority identifies members; not every cluster has reverse DNS for pods.
    '--peer-skip-client-san-verification=true',
    '--auto-compaction-mode=periodic',
    '--auto-compaction-retention=10m',
    '--quota-backend-bytes=2147483648',
    '--log-level=warn',
  ];
}

const probe = (path: string) => ({ httpGet: { path, port: 'metrics', scheme: 'HTTP' }, timeoutSeconds: 5 });

/** DNS may start later than the members, or require ready pods. */
function hostAliases(cluster: string, namespace: string, addresses: readonly string[]) {
  return addresses.map((ip, index) => ({
    ip,
    hostnames: [etcdPeerName(cluster, namespace, etcdMemberName(cluster, index))],
  }));
}

/** Prefers the affinity of the values. */
function affinity({ affinity: given = {} }: PodSettings, own: object) {
  const chosen = Object.keys(given).length > 0 ? given : own;
  return Object.keys(chosen).length > 0 ? { affinity: chosen } : {};
}

function apart(matchLabels: Record<string, string>) {
  const podAffinityTerm = { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels } };
  return {
    podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm }] },
  };
}

function volumeClaims(size: string, storageClassName: string | undefined, labels: Record<string, string>) {
  return {
    persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Delete', whenScaled: 'Retain' },
    volumeClaimTemplates: [
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'data', labels },
        spec: {
          accessModes: ['ReadWriteOnce'],
          ...(storageClassName === undefined ? {} : { storageClassName }),
          resources: { requests: { storage: size } },
        },
      },
    ],
  };
}
