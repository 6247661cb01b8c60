import { healthPort } from '@hearth/common';
import type { AgentPod } from './agent_pods.ts';
import type { ClusterSession } from './cluster_session.ts';

/** The text of an agent's metrics, through the API server's pod proxy. */
export async function metricsText(session: ClusterSession, { namespace, name, node }: AgentPod): Promise<string> {
  const { api } = await session.cluster();
  const path = `/api/v1/namespaces/${namespace}/pods/${name}:${healthPort}/proxy/metrics`;
  return await api.text(`get metrics of the agent on ${node}`, path, session.signal());
}

/** Sums of metrics over their labels, by name, from the Prometheus text format. */
export function sumsOf(text: string): Map<string, number> {
  const sums = new Map<string, number>();
  for (const line of text.split('\n')) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{.*\})? (\S+)/.exec(line);
    if (found === null) continue;
    const [, name = '', value = ''] = found;
    sums.set(name, (sums.get(name) ?? 0) + Number(value));
  }
  return sums;
}
