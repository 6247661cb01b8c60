import { kinds, type PodDisruptionBudget, type StatefulSet } from '@hearth/common/kubernetes';
import { startupTaintKey } from '@hearth/common/resources';
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
import { field, podMetadata, pullSecrets, serviceAccount } from './pod.ts';

const certificates = '/etc/etcd/tls';
const dataFolder = '/var/lib/etcd';
const user = 65_532;

/**
 * etcd for a cluster without endpoints of its own: all ports but metrics by mutual TLS, all data can be rebuilt.
 * `addresses`: of the members' Services, in their order; none when there is one member.
 */
export function etcdStatefulSet(input: BuildInput, addresses: readonly string[]): DesiredObject<StatefulSet> {
  const { cluster, environment } = input;
  const { name } = cluster.metadata;
  const { replicas = 1, storage = { emptyDir: {} } } = cluster.spec.store.etcd ?? {};
  const labels = labelsOf(name, 'etcd');
  const settings = environment.pods.etcd;
  const onVolume = storage.size !== undefined;
  const template = {
    metadata: podMetadata(settings, labels),
    spec: {
      ...serviceAccount(settings),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      nodeSelector: { 'kubernetes.io/os': 'linux', ...settings.nodeSelector },
      // Agents become ready only with their store: it may not wait for theirs.
      tolerations: [...(settings.tolerations ?? []), { key: startupTaintKey, operator: 'Exists' }],
      priorityClassName: settings.priorityClassName ?? 'system-cluster-critical',
      terminationGracePeriodSeconds: 30,
      ...affinity(settings, replicas > 1 ? apart(selectorOf(name, 'etcd')) : {}),
      ...pullSecrets(environment.imagePullSecrets),
      ...(addresses.length > 0 ? { hostAliases: hostAliases(name, environment.namespace, addresses) } : {}),
      securityContext: {
        runAsNonRoot: true,
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
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
    // Members of a new cluster become ready only together.
    podManagementPolicy: 'Parallel',
    selector: { matchLabels: selectorOf(name, 'etcd') },
    updateStrategy: { type: 'RollingUpdate' },
    revisionHistoryLimit: 3,
    template,
    ...(onVolume ? volumeClaims(storage.size ?? '', storage.storageClassName, labels) : {}),
  };
  return desiredObject(input, kinds.StatefulSet, etcdSetName(name), labels, { spec } as never);
}

/** At most one member is evicted at a time; a member that is ill holds up no drain. */
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

/** Flags of etcd (etcd.io/docs/v3.6/op-guide/configuration). `token` distinguishes this cluster from others of its name. */
export function etcdArguments(cluster: string, namespace: string, token: string, replicas: number): string[] {
  // A single member talks to no other, so it needs no name.
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
    // Members are known by the authority; names of the pods' addresses are not in every cluster's reverse DNS.
    '--peer-skip-client-san-verification=true',
    '--auto-compaction-mode=periodic',
    '--auto-compaction-retention=10m',
    '--quota-backend-bytes=2147483648',
    '--log-level=warn',
  ];
}

const probe = (path: string) => ({ httpGet: { path, port: 'metrics', scheme: 'HTTP' }, timeoutSeconds: 5 });

/** Members know one another's addresses without DNS, which may be later than they, or ask for pods that are ready. */
function hostAliases(cluster: string, namespace: string, addresses: readonly string[]) {
  return addresses.map((ip, index) => ({
    ip,
    hostnames: [etcdPeerName(cluster, namespace, etcdMemberName(cluster, index))],
  }));
}

/** The affinity of the values, else the one given. */
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
