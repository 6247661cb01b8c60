import { type ConfigMap, kinds } from '@hearth/common/kubernetes';
import {
  type NodeGroup,
  parseQuantity,
  parseShare,
  registeredName,
  type StorageCluster,
} from '@hearth/common/resources';
import { hashOf } from '../../kubernetes/index.ts';
import {
  agentPaths,
  agentSocket,
  clientsSocket,
  groupName,
  holderSocket,
  labelsOf,
  nodeFolder,
  runFolder,
} from '../names.ts';
import { type BuildInput, type DesiredObject, desiredObject } from './desired_object.ts';

/** JSON, which is valid YAML. Variables of the pod carry the node's name and addresses. */
export function agentConfig(cluster: StorageCluster, group: NodeGroup, store: string): string {
  const { name } = cluster.metadata;
  const { origins, logLevel } = cluster.spec;
  const { certificates, secret, authorities, temporary } = agentPaths;
  const document = {
    cluster: name,
    store,
    // An etcd that the spec names may have other users.
    storeMaintenance: cluster.spec.store.endpoints === undefined,
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
    clients: { socket: clientsSocket(name), ...cluster.spec.clients },
    volumes: { directory: nodeFolder(name), tails: `${runFolder(name)}/volumes` },
    kubelet: { directory: temporary },
    engine: {
      shards: group.engine.shards,
      originConnections: group.engine.originConnections,
      bufferBytes: amount(group.engine.buffer),
      memoryBytes: amount(group.engine.memory),
      ...(group.engine.hugePages === undefined ? {} : { pages: `huge-${group.engine.hugePages}` }),
      scrubRate: amount(group.engine.scrubRate),
      ...(group.rdma === undefined ? {} : { rdma: group.rdma.use, rdmaDevices: group.rdma.devices }),
    },
    ...(group.limits === undefined ? {} : { limits: limitsOf(group.limits) }),
    origins: {
      allowedNetworks: origins.allowedNetworks,
      directoryPrefixes: origins.directoryPrefixes,
      // The prefix of registered names; no namespace contains a dot.
      nodeIdentity: origins.nodeIdentity.namespaces.map((namespace) => registeredName(namespace, '')),
      maxEntries: origins.maxEntries,
      ...(origins.certificateAuthorities === undefined
        ? {}
        : { certificateAuthorities: `${authorities}/${origins.certificateAuthorities.key}` }),
    },
    log: { level: logLevel, format: 'json' },
    // Restarts would not repair a disk, and report less.
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

/** Keeps shares, converts sizes to bytes: agents do not parse units of Kubernetes. */
function amount(text: string): string {
  const share = parseShare(text);
  if (share !== undefined && 'percent' in share) return `${share.percent}%`;
  return String(share?.bytes ?? parseQuantity(text));
}

/**
 * The configuration of a node group's agents, without secrets. Immutable: the name contains a hash of the content, so
 * an agent that restarts during an upgrade or rollback reads the configuration of its own release.
 */
export function configMap(input: BuildInput, group: NodeGroup, store: string): DesiredObject<ConfigMap> {
  const { name } = input.cluster.metadata;
  const data = { 'agent.yaml': agentConfig(input.cluster, group, store) };
  const unique = `${groupName(name, group.name)}-${hashOf(data).slice(0, 10)}`;
  return desiredObject(input, kinds.ConfigMap, unique, labelsOf(name, 'agent', group.name), { data, immutable: true });
}
