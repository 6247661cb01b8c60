import { clusterLabel, fieldManager, nodeGroupLabel } from '@hearth/common/resources';
import type { SecretRole } from '../certificates/index.ts';
import { componentLabel, managedByLabel } from '../kubernetes/index.ts';

export type Component = 'agent' | 'holder' | 'etcd' | 'certificates';

/** Labels of an object that belongs to a cluster. */
export function labelsOf(cluster: string, component: Component, group?: string): Record<string, string> {
  return { ...selectorOf(cluster, component, group), [managedByLabel]: fieldManager };
}

/** Labels by which pods are chosen; selectors cannot be changed, so neither may these. */
export function selectorOf(cluster: string, component: Component, group?: string): Record<string, string> {
  return {
    'app.kubernetes.io/name': 'hearth',
    [componentLabel]: component,
    [clusterLabel]: cluster,
    ...(group === undefined ? {} : { [nodeGroupLabel]: group }),
  };
}

export const secretName = (cluster: string, role: SecretRole) => `hearth-${cluster}-${role}`;
export const groupName = (cluster: string, group: string) => `hearth-${cluster}-${group}`;
export const agentSetName = (cluster: string, group: string) => `hearth-${cluster}-${group}-agent`;
export const holderSetName = (cluster: string, group: string) => `hearth-${cluster}-${group}-holder`;
export const agentServiceName = (cluster: string) => `hearth-${cluster}-agent`;
export const etcdSetName = (cluster: string) => `hearth-${cluster}-etcd`;
export const etcdServiceName = (cluster: string) => `hearth-${cluster}-etcd`;
/** Of a member's pod, and of the Service that keeps an address for it. */
export const etcdMemberName = (cluster: string, index: number) => `${etcdSetName(cluster)}-${index}`;
export const etcdPeersName = (cluster: string) => `hearth-${cluster}-etcd-peers`;

/** Folder of a cluster on each of its nodes; the same path in the pods that use it. */
export const nodeFolder = (cluster: string) => `/var/lib/hearth/${cluster}`;
export const agentSocket = (cluster: string) => `${nodeFolder(cluster)}/run/agent.sock`;
export const holderSocket = (cluster: string) => `${nodeFolder(cluster)}/run/holder.sock`;

/** Alone in its folder, which pods of clients may mount. */
export const clientsSocket = (cluster: string) => `${nodeFolder(cluster)}/run/clients/clients.sock`;

/** Where the agent's pod has what it is given. */
export const agentPaths = {
  configuration: '/etc/hearth/config',
  certificates: '/etc/hearth/tls',
  secret: '/etc/hearth/secret',
  store: '/etc/hearth/store',
  authorities: '/etc/hearth/authorities',
  /** An emptyDir: the kubelet keeps these in its own folder. */
  temporary: '/tmp',
} as const;

/** DNS name by which the members of a cluster's etcd know the one of this name; `*` stands for every member. */
export const etcdPeerName = (cluster: string, namespace: string, member: string) =>
  `${member}.${etcdPeersName(cluster)}.${namespace}.svc`;
