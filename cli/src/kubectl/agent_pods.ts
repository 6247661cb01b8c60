import { HearthError } from '@hearth/common';
import { kinds } from '@hearth/common/kubernetes';
import { clusterLabel } from '@hearth/common/resources';
import type { ClusterSession } from './cluster_session.ts';

export const agentContainer = 'agent';
const agentLabels = 'app.kubernetes.io/name=hearth,app.kubernetes.io/component=agent';

/** A running agent pod. */
export interface AgentPod {
  namespace: string;
  name: string;
  node: string;
  /** An agent that is not ready still reports its reasons. */
  ready: boolean;
}

/** Running agents by node, filtered by HEARTH_CLUSTER and HEARTH_NODE if set. Throws `NotFound` when none runs. */
export async function agentPods(session: ClusterSession): Promise<AgentPod[]> {
  const { HEARTH_CLUSTER: cluster, HEARTH_NODE: node } = session.terminal.environment;
  const namespace = session.releaseNamespace;
  const labelSelector = cluster ? `${agentLabels},${clusterLabel}=${cluster}` : agentLabels;
  const fieldSelector = `status.phase=Running${node ? `,spec.nodeName=${node}` : ''}`;
  const { api } = await session.cluster();
  const { items } = await api.list(kinds.Pod, { namespace, labelSelector, fieldSelector }, session.signal());
  if (items.length === 0) {
    const where = `${node ? ` on node ${node}` : ''}${cluster ? ` for StorageCluster ${cluster}` : ''}`;
    throw new HearthError(
      'NotFound',
      `no agent runs in namespace ${namespace}${where}; see kubectl get storageclusters, and HEARTH_NAMESPACE`,
    );
  }
  const pods = items.map(({ metadata, spec, status }) => ({
    namespace,
    name: metadata?.name ?? '',
    node: spec?.nodeName ?? '',
    ready: status?.conditions?.some(({ type, status: state }) => type === 'Ready' && state === 'True') ?? false,
  }));
  return pods.sort((a, b) => (a.node < b.node ? -1 : 1));
}

/** An agent to ask, preferably a ready one. */
export async function anAgent(session: ClusterSession): Promise<AgentPod> {
  const pods = await agentPods(session);
  return (pods.find(({ ready }) => ready) ?? pods[0]) as AgentPod;
}
