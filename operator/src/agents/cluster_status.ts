import { isDeepStrictEqual } from 'node:util';
import { apiDifference, apiDifferences, HearthError, understandsApi } from '@hearth/common';
import type { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from './agents.ts';

const client = 'the operator';

/** An agent's message, indexed by name. Throws `Unsupported` when the agent's API is too far from ours to be believed. */
export function clusterStatus(message: GetStatusResponse, receivedAt: number): ClusterStatus {
  if (!understandsApi(message))
    throw new HearthError('Unsupported', apiDifference(message, `the agent on ${message.node}`, client) ?? '');
  return {
    receivedAt,
    connected: true,
    nodes: new Map(message.nodes.map((node) => [node.node, node])),
    datasets: new Map(message.datasets.map((dataset) => [dataset.name, dataset])),
    jobs: new Map(message.jobs.map((job) => [job.name, job])),
    apiDifferences: apiDifferences(message, client),
  };
}

/** Nodes whose agents do not offer a feature of the control API, by their names. */
export function nodesWithout({ nodes }: Pick<ClusterStatus, 'nodes'>, feature: string): string[] {
  return [...nodes.values()].flatMap(({ node, apiFeatures }) => (apiFeatures.includes(feature) ? [] : [node])).sort();
}

/** The same nodes lack the feature as before. */
export function sameNodesWithout(
  before: ClusterStatus | undefined,
  after: ClusterStatus | undefined,
  feature: string,
): boolean {
  const [was, is] = [before, after].map((status) => (status === undefined ? [] : nodesWithout(status, feature)));
  return isDeepStrictEqual(was, is);
}

/**
 * Least time between two status messages. A message grows with agents and Datasets, and each has to be decoded and
 * compared, so large clusters report less often.
 */
export function statusIntervalMs(agents: number): number {
  return Math.min(15_000, Math.max(2_000, agents * 50));
}
