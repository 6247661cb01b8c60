import { type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import { agentsLabel } from '@hearth/common/names';
import type { NodeState, StorageCluster } from '@hearth/common/resources';
import type { AgentDirectory } from '../agents/index.ts';
import { planCertificates, type SecretRole } from '../certificates/index.ts';
import {
  hashOf,
  type MountingPods,
  type NodeFacts,
  type Placement,
  placeNodes,
  type SecretTexts,
  type Source,
  secretTexts,
  staleAgents,
} from '../kubernetes/index.ts';
import { agentEndpoints } from './agent_links.ts';
import type { Environment } from './environment.ts';
import {
  etcdMemberName,
  etcdPeerName,
  etcdServiceName,
  etcdSetName,
  hostOf,
  secretName,
  storeAddress,
} from './names.ts';
import { type DesiredObject, desired } from './objects/index.ts';
import type { Observation, StoreState } from './observation.ts';
import { clusterOf, type OwnedObjects, type OwnedSources } from './owned_objects.ts';
import { keyOf } from './plan.ts';
import type { PodState } from './pod_state.ts';
import { nodeStates } from './status.ts';
import { isStoreMoved, type RefusedChange, refusedStoreChange, type StoredVolume } from './store_data.ts';

export interface ObserverOptions {
  api: Pick<KubernetesClient, 'get'>;
  environment: Environment;
  agents: AgentDirectory;
  clusters: Source<StorageCluster>;
  nodes: Source<NodeFacts>;
  /** Pods of the operator's namespace with `ownedSelector`. */
  pods: Source<PodState>;
  mounting: Pick<MountingPods, 'on'>;
  volumes: Pick<Source<StoredVolume>, 'all'>;
  owned: OwnedObjects;
  now: () => Date;
}

/** The last message of an etcd without data that other members know. */
const memberLostWords = 'has already been bootstrapped';
const roles: readonly SecretRole[] = ['ca', 'agent', 'operator', 'etcd', 'secret'];

/** Reads everything for one pass, mostly from reflectors. */
export class Observer {
  readonly #options: ObserverOptions;

  constructor(options: ObserverOptions) {
    this.#options = options;
  }

  async observe(cluster: StorageCluster, signal: AbortSignal): Promise<Observation> {
    const { environment, agents, pods, nodes, clusters, owned } = this.#options;
    const { name } = cluster.metadata;
    const now = this.#options.now();
    const { texts, versions } = await this.#secrets(name, signal);
    const subject = { cluster: name, peers: [etcdPeerName(name, environment.namespace, '*')] };
    const certificates = await planCertificates(subject, texts, now);

    const placement = placeNodes(clusters.all(), nodes.all());
    const conflicts = placement.conflicts.get(name) ?? [];
    const serviceAddress = owned.get('Service', etcdServiceName(name))?.spec?.clusterIP;
    const members = this.#members(cluster);
    const store = members === undefined ? undefined : storeAddress(cluster, serviceAddress);
    const { originAuthorities, missing } = await readReferences(
      this.#options.api,
      cluster,
      environment.namespace,
      signal,
    );
    const startHash = hashOf([certificates.texts.secret, originAuthorities]);
    const { authorities } = certificates;
    const trustHash = authorities.length > 1 ? hashOf(authorities) : undefined;
    const objects = desired({ cluster, environment, store, members, startHash, trustHash });

    const ownPods = pods.all().filter((pod) => pod.cluster === name);
    const agentPods = ownPods.filter(({ component }) => component === 'agent');
    const { status, trouble } = agents.get(name) ?? {};
    const { namespace } = environment;
    const ownNodes = nodesOf(name, placement, nodes.all());
    const states = nodeStates({ nodes: ownNodes, agents: agentPods, status, namespace, now });
    const answers = states.some(({ ready }) => ready);
    const state = store === undefined ? undefined : this.#storeState(cluster, serviceAddress, ownPods, answers);
    return {
      now,
      certificates,
      secretVersions: versions,
      desired: objects,
      owned: owned.ofCluster(name),
      configurations: new Set(agentPods.map(({ configuration }) => configuration)),
      foreign: this.#foreign(name, objects),
      missing,
      store: state,
      refused: state && this.#refused(cluster, state, states, agentPods),
      conflicts,
      unlabelled: ownNodes.some(({ facts, group }) => facts.labels[agentsLabel(name)] !== group),
      labelledGroups: new Set(nodes.all().flatMap(({ labels }) => labels[agentsLabel(name)] ?? [])),
      keptBy: this.#keptBy(name, placement),
      nodes: states,
      agents: { running: agentEndpoints(agentPods).length, trouble },
      status,
    };
  }

  #refused(
    cluster: StorageCluster,
    { endpoints, memberLost }: StoreState,
    nodes: readonly NodeState[],
    agents: readonly PodState[],
  ): RefusedChange | undefined {
    const hasOwnStore = this.#options.owned.get('StatefulSet', etcdSetName(cluster.metadata.name)) !== undefined;
    return refusedStoreChange({
      cluster,
      volumes: this.#options.volumes.all(),
      running: new Set(agents.filter(({ running, deleting }) => running && !deleting).map(({ node }) => node)),
      nodes: nodes.map(({ name }) => name),
      memberLost,
      moved: isStoreMoved(cluster, endpoints, hasOwnStore),
    });
  }

  #keptBy(cluster: string, { places }: Placement): string[] {
    const { nodes, mounting } = this.#options;
    const stale = nodes
      .all()
      .filter(({ name, labels }) => staleAgents(labels, places.get(name)).some((one) => one.cluster === cluster));
    const names = stale.map(({ name }) => name);
    return mounting.on(names, (of) => of === '' || of === cluster);
  }

  /** Asks the API server for Secrets without the label, or the operator would issue a second authority. */
  async #secrets(cluster: string, signal: AbortSignal) {
    const { api, owned, environment } = this.#options;
    const texts: Partial<Record<SecretRole, SecretTexts>> = {};
    const versions: Partial<Record<SecretRole, string>> = {};
    for (const role of roles) {
      const name = secretName(cluster, role);
      const secret = owned.get('Secret', name) ?? (await api.get(kinds.Secret, name, environment.namespace, signal));
      if (secret === undefined) continue;
      texts[role] = secretTexts(secret);
      const version = secret.metadata?.resourceVersion;
      if (version !== undefined) versions[role] = version;
    }
    return { texts, versions };
  }

  /** Service addresses of several etcd members; undefined while some are unknown. */
  #members({ metadata, spec }: StorageCluster): string[] | undefined {
    const { replicas = 1 } = spec.store.etcd ?? {};
    if (spec.store.endpoints !== undefined || replicas === 1) return [];
    const addresses = Array.from({ length: replicas }, (_, index) => {
      return this.#options.owned.get('Service', etcdMemberName(metadata.name, index))?.spec?.clusterIP ?? '';
    });
    return addresses.includes('') ? undefined : addresses;
  }

  #foreign(cluster: string, objects: readonly DesiredObject[]): string[] {
    return objects
      .filter(({ type, object }) => {
        const present = this.#options.owned.get(type.kind as keyof OwnedSources, object.metadata?.name ?? '');
        return present !== undefined && clusterOf(present) !== cluster;
      })
      .map(({ type, object }) => keyOf(type, object));
  }

  #storeState(
    cluster: StorageCluster,
    serviceAddress: string | undefined,
    pods: readonly PodState[],
    answers: boolean,
  ): StoreState {
    const { endpoints } = cluster.spec.store;
    // A ready agent reaches the store.
    if (endpoints !== undefined) return { endpoints, ready: answers, trouble: undefined, memberLost: false };
    const set = this.#options.owned.get('StatefulSet', etcdSetName(cluster.metadata.name));
    const wanted = cluster.spec.store.etcd?.replicas ?? 1;
    const ready = (set?.status?.readyReplicas ?? 0) > wanted / 2;
    const troubles = pods.flatMap(({ component, trouble }) => (component === 'etcd' && trouble ? [trouble] : []));
    const none = { reason: 'NoPod', message: 'The store has no pod yet' };
    return {
      endpoints: serviceAddress === undefined ? [] : [`https://${hostOf(serviceAddress)}:2379`],
      ready,
      trouble: ready ? undefined : (troubles[0] ?? none),
      memberLost: troubles.some(({ message }) => message.includes(memberLostWords)),
    };
  }
}

function nodesOf(cluster: string, { places }: Placement, nodes: readonly NodeFacts[]) {
  return nodes.flatMap((facts) => {
    const place = places.get(facts.name);
    return place?.cluster === cluster ? [{ facts, group: place.group }] : [];
  });
}

/** Objects of users that the spec refers to. */
interface References {
  /** PEM; agents read these authorities at their start. */
  originAuthorities: string | undefined;
  /** Sentences about missing objects. */
  missing: string[];
}

const storeKeys = ['tls.crt', 'tls.key', 'ca.crt'];

/** Pods wait silently for missing volumes, so the status reports these objects. */
export async function readReferences(
  api: Pick<KubernetesClient, 'get'>,
  { spec }: StorageCluster,
  namespace: string,
  signal: AbortSignal,
): Promise<References> {
  const missing: string[] = [];
  let originAuthorities: string | undefined;
  const { certificateAuthorities } = spec.origins;
  if (certificateAuthorities !== undefined) {
    const { name, key } = certificateAuthorities;
    const found = await api.get(kinds.ConfigMap, name, namespace, signal);
    originAuthorities = found?.data?.[key];
    if (found === undefined) missing.push(`Agents wait for ConfigMap ${name} in namespace ${namespace}; make it`);
    else if (originAuthorities === undefined) {
      missing.push(`Agents wait for the key ${key} of ConfigMap ${name} in namespace ${namespace}; add it`);
    }
  }
  if (spec.store.secretRef !== undefined) {
    const { name } = spec.store.secretRef;
    const found = await api.get(kinds.Secret, name, namespace, signal);
    const absent = storeKeys.filter((key) => found?.data?.[key] === undefined);
    if (found === undefined) missing.push(`Agents wait for Secret ${name} in namespace ${namespace}; make it`);
    else if (absent.length > 0) {
      missing.push(`Agents wait for ${absent.join(', ')} in Secret ${name} in namespace ${namespace}; add them`);
    }
  }
  return { originAuthorities, missing };
}
