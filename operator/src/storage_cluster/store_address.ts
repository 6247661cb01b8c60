import type { StorageCluster } from '@hearth/common/resources';
import { etcdName } from '../certificates/index.ts';
import { agentPaths } from './names.ts';

const clientPort = 2379;

/**
 * The address of the store for agents: `etcd://HOST:PORT,.../CLUSTER?...`. Undefined while the Service of an etcd of our
 * own has no address yet. Agents use it without DNS, since pods on the node's network may have none of the cluster.
 */
export function storeAddress(cluster: StorageCluster, serviceAddress: string | undefined): string | undefined {
  const { name } = cluster.metadata;
  const { endpoints, secretRef } = cluster.spec.store;
  const files = (folder: string) =>
    new URLSearchParams({ ca: `${folder}/ca.crt`, cert: `${folder}/tls.crt`, key: `${folder}/tls.key` });
  const address = (hosts: string, parameters: URLSearchParams) => {
    // Paths need no escaping, and people read this.
    const query = decodeURIComponent(parameters.toString());
    return `etcd://${hosts}/${name}${query === '' ? '' : `?${query}`}`;
  };

  if (endpoints === undefined) {
    if (serviceAddress === undefined) return undefined;
    const parameters = files(agentPaths.certificates);
    parameters.set('serverName', etcdName(name));
    const host = serviceAddress.includes(':') ? `[${serviceAddress}]` : serviceAddress;
    return address(`${host}:${clientPort}`, parameters);
  }
  const hosts = endpoints.map((endpoint) => endpoint.replace(/^https?:\/\//, '')).join(',');
  if (endpoints[0]?.startsWith('http:')) return address(hosts, new URLSearchParams());
  return address(hosts, secretRef === undefined ? new URLSearchParams({ tls: 'true' }) : files(agentPaths.store));
}
