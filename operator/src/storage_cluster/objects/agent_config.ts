import {
  type NodeGroup,
  parseQuantity,
  parseShare,
  registeredName,
  type StorageCluster,
} from '@hearth/common/resources';
import { agentPaths, agentSocket, clientsSocket, holderSocket, nodeFolder } from '../names.ts';

/**
 * The agent's configuration file: JSON, which is YAML too. What differs from node to node (name, addresses) comes
 * as variables of the pod.
 */
export function agentConfig(cluster: StorageCluster, group: NodeGroup, store: string): string {
  const { name } = cluster.metadata;
  const { origins, logLevel } = cluster.spec;
  const { certificates, secret, authorities, temporary } = agentPaths;
  const document = {
    cluster: name,
    store,
    secretFile: `${secret}/secret`,
    wire: { networks: group.networks },
    cache: {
      directories: group.cacheDirectories.map(({ path, budget, freeFloor }) => ({
        path,
        budget: amount(budget),
        freeFloor: amount(freeFloor),
      })),
    },
    control: {
      socket: agentSocket(name),
      certificate: `${certificates}/tls.crt`,
      key: `${certificates}/tls.key`,
      clientAuthorities: `${certificates}/ca.crt`,
    },
    holder: { socket: holderSocket(name) },
    clients: { socket: clientsSocket(name) },
    volumes: { directory: nodeFolder(name) },
    kubelet: { directory: temporary },
    engine: {
      shards: group.engine.shards,
      originConnections: group.engine.originConnections,
      bufferBytes: amount(group.engine.buffer),
      ...(group.engine.hugePages === undefined ? {} : { pages: `huge-${group.engine.hugePages}` }),
      scrubRate: amount(group.engine.scrubRate),
      ...(group.rdma === undefined ? {} : { rdma: group.rdma.use, rdmaDevices: group.rdma.devices }),
    },
    ...(group.limits === undefined ? {} : { limits: limitsOf(group.limits) }),
    origins: {
      allowedNetworks: origins.allowedNetworks,
      directoryPrefixes: origins.directoryPrefixes,
      // As the operator registers the Datasets of a namespace; no namespace has a dot in its name.
      nodeIdentity: origins.nodeIdentity.namespaces.map((namespace) => registeredName(namespace, '')),
      maxEntries: origins.maxEntries,
      ...(origins.certificateAuthorities === undefined
        ? {}
        : { certificateAuthorities: `${authorities}/${origins.certificateAuthorities.key}` }),
    },
    log: { level: logLevel, format: 'json' },
    // Ending again and again would mend no disk, and report less.
    onStartFailure: 'wait',
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

function limitsOf({ origin, peers, disk }: NonNullable<NodeGroup['limits']>) {
  const rates = ({ total, warm }: { total?: string | undefined; warm?: string | undefined } = {}) => ({
    ...(total === undefined ? {} : { total: amount(total) }),
    ...(warm === undefined ? {} : { warm: amount(warm) }),
  });
  return { origin: rates(origin), peers: rates(peers), disk: rates(disk) };
}

/** Shares as they are, sizes in bytes: the agent's units are not those of Kubernetes. */
function amount(text: string): string {
  const share = parseShare(text);
  if (share !== undefined && 'percent' in share) return `${share.percent}%`;
  return String(share?.bytes ?? parseQuantity(text));
}
