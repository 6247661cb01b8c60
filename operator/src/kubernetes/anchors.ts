import { agentsLabel, agentTopologyKey, clusterTopologyKey, topologyValue } from '@hearth/common/names';
import type { NodeGroup, StorageCluster } from '@hearth/common/resources';
import { type Expression, expressionHolds } from './node_matching.ts';
import { controlPlaneKeys, noVirtualNode, termsOf } from './placement.ts';

/** A NodeSelectorTerm of Kubernetes. */
export type NodeTerm = { matchExpressions: { key: string; operator: string; values?: string[] }[] };

/**
 * Pure. Where agents and holders of a group run: nodes that the operator has labelled, and nodes that it has not seen,
 * by the group's own selector. Autoscalers compute with nodes that do not exist, which have the labels of a NodePool
 * or of a node template and none of Hearth's. New nodes come first: Karpenter reads terms in order.
 */
export function daemonTerms(cluster: StorageCluster, group: NodeGroup): NodeTerm[] {
  return [...newNodes(cluster, group), term(is(agentsLabel(cluster.metadata.name), group.name))];
}

/**
 * Pure. Where volumes of a StorageCluster can be used. A PersistentVolume keeps its affinity, so its first terms are
 * the selectors of its day; the last one holds for every node that the operator labels.
 */
export function volumeTerms(cluster: StorageCluster): NodeTerm[] {
  const { metadata, spec } = cluster;
  const anchored = spec.nodeGroups.flatMap((group) => newNodes(cluster, group));
  return [...anchored, term(is(clusterTopologyKey(metadata.name), topologyValue))];
}

/** Pure. True when agents of the StorageCluster would come to a node with these labels by themselves. */
export function isAnchored({ spec }: StorageCluster, labels: Readonly<Record<string, string>>): boolean {
  const holds = (one: Expression) => expressionHolds(one, labels[one.key]);
  return spec.nodeGroups.some((group) => selectors(spec.nodeGroups, group).some((terms) => terms.every(holds)));
}

function newNodes({ metadata, spec }: StorageCluster, group: NodeGroup): NodeTerm[] {
  // The second label keeps out of nodes that another StorageCluster has.
  const unseen = [agentsLabel(metadata.name), agentTopologyKey].map(absent);
  return selectors(spec.nodeGroups, group).map((expressions) => term(...expressions, ...unseen));
}

/**
 * Alternatives that select new nodes for this group and for no earlier one, as far as labels say. Groups with an
 * affinity are not left out of later ones: the operator's label decides about their nodes.
 */
function selectors(groups: readonly NodeGroup[], group: NodeGroup): Expression[][] {
  const own = [
    is('kubernetes.io/os', 'linux'),
    ...Object.entries(group.nodeSelector).map(([key, value]) => is(key, value)),
    ...noVirtualNode,
    ...(group.tolerations === undefined ? controlPlaneKeys.map(absent) : []),
  ];
  const terms = termsOf(group);
  let found = terms.length === 0 ? [own] : terms.map(({ matchExpressions }) => [...own, ...matchExpressions]);
  const position = groups.findIndex(({ name }) => name === group.name);
  for (const { nodeSelector, affinity } of groups.slice(0, position)) {
    const labels = Object.entries(nodeSelector);
    const isApart = labels.some(([key, value]) => (group.nodeSelector[key] ?? value) !== value);
    if (affinity !== undefined || isApart) continue;
    found = found.flatMap((one) => labels.map(([key, value]) => [...one, isNot(key, value)]));
  }
  return found;
}

/** The API server drops empty lists. */
const term = (...expressions: Expression[]): NodeTerm => ({
  matchExpressions: expressions.map(({ values, ...rest }) =>
    values.length === 0 ? rest : { ...rest, values: [...values] },
  ),
});
const is = (key: string, value: string): Expression => ({ key, operator: 'In', values: [value] });
const isNot = (key: string, value: string): Expression => ({ key, operator: 'NotIn', values: [value] });
const absent = (key: string): Expression => ({ key, operator: 'DoesNotExist', values: [] });
