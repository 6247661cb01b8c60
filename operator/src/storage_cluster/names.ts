import { clusterLabel, fieldManager, nodeGroupLabel, type StorageCluster } from '@hearth/common/resources';
import { etcdName, type SecretRole } from '../certificates/index.ts';
import { componentLabel, managedByLabel } from '../kubernetes/index.ts';

export type Component = 'agent' | 'holder' | 'etcd' | 'certificates';

export function labelsOf(cluster: string, component: Component, group?: string): Record<string, string> {
  return { ...selectorOf(cluster, component, group), [managedByLabel]: fieldManager };
}

/** Selectors are immutable, so these labels must never change. */
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
export const etcdMemberName = (cluster: string, index: number) => `${etcdSetName(cluster)}-${index}`;
export const etcdPeersName = (cluster: string) => `hearth-${cluster}-etcd-peers`;

/** The directory of a cluster on its nodes, at the same path in pods. */
export const nodeFolder = (cluster: string) => `/var/lib/hearth/${cluster}`;

/** The directory of a cluster on its nodes whose files a reboot removes, at the same path in pods. */
export const runFolder = (cluster: string) => `/run/hearth/${cluster}`;
export const agentSocket = (cluster: string) => `${nodeFolder(cluster)}/run/agent.sock`;
export const holderSocket = (cluster: string) => `${nodeFolder(cluster)}/run/holder.sock`;

/** Pods of clients may mount its directory, so the directory holds nothing else. */
export const clientsSocket = (cluster: string) => `${nodeFolder(cluster)}/run/clients/clients.sock`;

export const agentPaths = {
  configuration: '/etc/hearth/config',
  certificates: '/etc/hearth/tls',
  secret: '/etc/hearth/secret',
  store: '/etc/hearth/store',
  authorities: '/etc/hearth/authorities',
  temporary: '/tmp',
} as const;

/** The DNS name of an etcd member for other members; `*` stands for every member. */
export const etcdPeerName = (cluster: string, namespace: string, member: string) =>
  `${member}.${etcdPeersName(cluster)}.${namespace}.svc`;

const clientPort = 2379;

/** An address as the host of a URL. */
export const hostOf = (address: string) => (address.includes(':') ? `[${address}]` : address);

/**
 * The agents' URL of the store: `etcd://HOST:PORT,.../CLUSTER?...`. Undefined while the Service of our etcd has no
 * address. Avoids DNS, which pods on the host network may lack.
 */
export function storeAddress(cluster: StorageCluster, serviceAddress: string | undefined): string | undefined {
  const { name } = cluster.metadata;
  const { endpoints, secretRef } = cluster.spec.store;
  const files = (folder: string) =>
    new URLSearchParams({ ca: `${folder}/ca.crt`, cert: `${folder}/tls.crt`, key: `${folder}/tls.key` });
  const address = (hosts: string, parameters: URLSearchParams) => {
    // Paths need no escaping, and stay readable.
    const query = decodeURIComponent(parameters.toString());
    return `etcd://${hosts}/${name}${query === '' ? '' : `?${query}`}`;
  };

  if (endpoints === undefined) {
    if (serviceAddress === undefined) return undefined;
    const parameters = files(agentPaths.certificates);
    parameters.set('serverName', etcdName(name));
    return address(`${hostOf(serviceAddress)}:${clientPort}`, parameters);
  }
  const hosts = endpoints.map((endpoint) => endpoint.replace(/^https?:\/\//, '')).join(',');
  if (endpoints[0]?.startsWith('http:')) return address(hosts, new URLSearchParams());
  return address(hosts, secretRef === undefined ? new URLSearchParams({ tls: 'true' }) : files(agentPaths.store));
}
