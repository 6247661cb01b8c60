import { controlPort, healthPort, wirePort } from '@hearth/common';
import type { DaemonSet } from '@hearth/common/kubernetes';
import { type NodeGroup, parseQuantity, type StorageCluster } from '@hearth/common/resources';
import { configurationVolume } from '../configurations.ts';
import { agentPaths, agentSetName, agentSocket, nodeFolder, runFolder, secretName } from '../names.ts';
import { inMebibytes, memoryLimit, requestedMemory } from './agent_memory.ts';
import type { BuildInput, DesiredObject } from './desired_object.ts';
import { deviceFolder, field, hostFolder, nodeDaemonSet, sharedMount, type Volume, type VolumeMount } from './pod.ts';

const configurationFile = `${agentPaths.configuration}/agent.yaml`;

export interface AgentInput extends BuildInput {
  group: NodeGroup;
  /** Hash of everything that agents read only at their start; a new one replaces the pods. */
  configurationHash: string;
  configurationName: string;
}

export function agentDaemonSet(input: AgentInput): DesiredObject<DaemonSet> {
  const { cluster, environment, group, configurationHash, configurationName } = input;
  const { name } = cluster.metadata;
  const { volumes, mounts } = folders(cluster, group, configurationName);
  return nodeDaemonSet(input, 'agent', {
    name: agentSetName(name, group.name),
    annotations: {
      'kubectl.kubernetes.io/default-container': 'agent',
      'hearth.storage/configuration-hash': configurationHash,
    },
    updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '10%' } },
    pod: { hostNetwork: true, dnsPolicy: 'ClusterFirstWithHostNet' },
    container: {
      command: ['hearth', 'agent', '--config', configurationFile],
      env: [
        { name: 'HEARTH_SOCKET', value: agentSocket(name) },
        { name: 'HEARTH_CONFIG', value: configurationFile },
        field('HEARTH_NODE', 'spec.nodeName'),
        field('HEARTH_WIRE_LISTEN', 'status.hostIP'),
        field('HEARTH_CONTROL_LISTEN', 'status.hostIP'),
        field('HEARTH_HEALTH_LISTEN', 'status.hostIP'),
        ...environment.pods.agent.extraEnv,
      ],
      ports: [port('wire', wirePort), port('control', controlPort), port('health', healthPort)],
      startupProbe: { ...probe('/healthz'), periodSeconds: 2, failureThreshold: 150 },
      livenessProbe: { ...probe('/healthz'), periodSeconds: 10, failureThreshold: 6 },
      readinessProbe: { ...probe('/readyz'), periodSeconds: 5, failureThreshold: 2 },
      resources: withDevice(resources(group, cluster), group.rdma?.resource),
      volumeMounts: mounts,
    },
    volumes,
  });
}

const port = (name: string, number: number) => ({
  name,
  containerPort: number,
  // Keeps the scheduler from placing two agents on one node.
  hostPort: number,
  protocol: 'TCP',
});

const probe = (path: string) => ({ httpGet: { path, port: 'health', scheme: 'HTTP' }, timeoutSeconds: 5 });

/** The group's resources, with defaults for absent requests or limits. */
function resources(group: NodeGroup, cluster: StorageCluster) {
  const { requests, limits } = group.resources ?? {};
  const own = { cpu: '100m', memory: inMebibytes(requestedMemory) };
  // Kubernetes also takes a limit as a request, so no default is added.
  if (limits !== undefined) return { ...(requests && { requests: texts(requests) }), limits: texts(limits) };
  const requested = parseQuantity(String(requests?.memory ?? 0)) ?? 0n;
  const limit = memoryLimit(group, cluster.spec.origins);
  const memory = inMebibytes(requested > limit ? requested + MiB : limit);
  return { requests: texts(requests ?? own), limits: { memory } };
}

/** Requests one device of a plug-in. */
function withDevice({ limits, ...rest }: ReturnType<typeof resources>, device: string | undefined) {
  return { ...rest, limits: device === undefined ? limits : { ...limits, [device]: '1' } };
}

const MiB = 1n << 20n;

const texts = (quantities: Record<string, string | number>) =>
  Object.fromEntries(Object.entries(quantities).map(([key, value]) => [key, String(value)]));

function folders(cluster: StorageCluster, group: NodeGroup, configurationName: string) {
  const { name } = cluster.metadata;
  const { origins, store } = cluster.spec;
  const caches = group.cacheDirectories.map(({ path }) => path);
  // A directory for both cache and sources is mounted once, writable.
  const sources = origins.directoryPrefixes.filter((prefix) => !caches.includes(prefix));
  const volumes: Volume[] = [
    { name: configurationVolume, configMap: { name: configurationName } },
    { name: 'certificates', secret: { secretName: secretName(name, 'agent'), defaultMode: 0o400 } },
    { name: 'secret', secret: { secretName: secretName(name, 'secret'), defaultMode: 0o400 } },
    { name: 'tmp', emptyDir: {} },
    hostFolder('node', nodeFolder(name)),
    hostFolder('run', runFolder(name)),
  ];
  const mounts: VolumeMount[] = [
    { name: configurationVolume, mountPath: agentPaths.configuration, readOnly: true },
    { name: 'certificates', mountPath: agentPaths.certificates, readOnly: true },
    { name: 'secret', mountPath: agentPaths.secret, readOnly: true },
    { name: 'tmp', mountPath: agentPaths.temporary },
    sharedMount('node', nodeFolder(name)),
    { name: 'run', mountPath: runFolder(name) },
  ];
  caches.forEach((path, index) => {
    volumes.push(hostFolder(`cache-${index}`, path));
    mounts.push(sharedMount(`cache-${index}`, path));
  });
  sources.forEach((path, index) => {
    volumes.push(hostFolder(`source-${index}`, path));
    mounts.push({ name: `source-${index}`, mountPath: path, readOnly: true, mountPropagation: 'HostToContainer' });
  });
  if (group.rdma !== undefined && group.rdma.resource === undefined) {
    volumes.push(hostFolder('rdma', deviceFolder));
    mounts.push({ name: 'rdma', mountPath: deviceFolder, mountPropagation: 'HostToContainer' });
  }
  if (store.secretRef !== undefined) {
    volumes.push({ name: 'store', secret: { secretName: store.secretRef.name, defaultMode: 0o400 } });
    mounts.push({ name: 'store', mountPath: agentPaths.store, readOnly: true });
  }
  if (origins.certificateAuthorities !== undefined) {
    volumes.push({ name: 'authorities', configMap: { name: origins.certificateAuthorities.name } });
    mounts.push({ name: 'authorities', mountPath: agentPaths.authorities, readOnly: true });
  }
  return { volumes, mounts };
}
