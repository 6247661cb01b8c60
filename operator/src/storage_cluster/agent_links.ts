import { controlPort, type Logger } from '@hearth/common';
import { type KubernetesClient, kinds, runController, type Secret, watch } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { AgentDirectory, AgentEndpoint } from '../agents/index.ts';
import { agentName } from '../certificates/index.ts';
import { type Source, secretTexts } from '../kubernetes/index.ts';
import { hostOf, secretName } from './names.ts';
import { clusterOf } from './owned_objects.ts';
import type { PodState } from './pod_state.ts';

export interface AgentLinksOptions {
  api: Pick<KubernetesClient, 'get'>;
  namespace: string;
  agents: Pick<AgentDirectory, 'configure' | 'forget'>;
  clusters: Source<StorageCluster>;
  /** Secrets and pods of the operator's namespace with `ownedSelector`. */
  secrets: Source<Secret>;
  pods: Source<PodState>;
  logger: Logger;
}

/** Pods of many nodes change together: one pass handles all, ms. */
const gatherMs = 200;
/** The pause between two looks for certificates that the leader has yet to issue, ms. */
const againMs = 10_000;

/**
 * Keeps a replica connected to the agents of all StorageClusters until the signal aborts. A replica that does not lead is
 * connected, too: a thousand connections take longer than pods may wait for a new leader.
 */
export async function connectAgents(options: AgentLinksOptions, signal: AbortSignal): Promise<void> {
  const { api, namespace, agents, clusters, secrets, pods, logger } = options;
  await runController({
    name: 'agents',
    workers: 1,
    watches: [
      watch(clusters, (name, before, after) => ((before === undefined) === (after === undefined) ? [] : [name])),
      watch(secrets, (_key, ...objects) => objects.flatMap((object) => (object && clusterOf(object)) ?? [])),
      watch(
        pods,
        (_key, ...states) => states.flatMap((pod) => (pod?.component === 'agent' ? pod.cluster : [])),
        gatherMs,
      ),
    ],
    first: () => clusters.keys(),
    reconcile: async (name, work) => {
      if (clusters.get(name) === undefined) return await agents.forget(name);
      const secret = secretName(name, 'operator');
      // A Secret without the label is asked for, as the leader does before it issues certificates.
      const found = secrets.get(`${namespace}/${secret}`) ?? (await api.get(kinds.Secret, secret, namespace, work));
      if (found === undefined) return { requeueAfterMs: againMs };
      const texts = secretTexts(found);
      const identity = {
        certificate: texts['tls.crt'] ?? '',
        key: texts['tls.key'] ?? '',
        authorities: texts['ca.crt'] ?? '',
        serverName: agentName(name),
      };
      agents.configure(name, identity, agentEndpoints(pods.all().filter(({ cluster }) => cluster === name)));
    },
    logger,
    signal,
  });
}

/** The addresses of the agents that run. */
export function agentEndpoints(pods: readonly PodState[]): AgentEndpoint[] {
  return pods
    .filter(({ component, running, deleting, hostAddress, node }) => {
      return component === 'agent' && running && !deleting && hostAddress !== '' && node !== '';
    })
    .map(({ node, hostAddress }) => ({ node, address: `${hostOf(hostAddress)}:${controlPort}` }))
    .sort((a, b) => (a.node < b.node ? -1 : 1));
}
