import { agentTopologyKey, clusterTopologyKey, clusterTopologyPrefix, topologyValue } from '@hearth/common/names';

/** Changes to labels as a merge patch names them: null removes one. */
export type LabelChanges = Record<string, string | null>;

/**
 * Pure. What has to change in a node's labels so that volumes of `cluster` alone can be used there; undefined: nothing.
 * `cluster` undefined: the node belongs to no StorageCluster. The kubelet writes the same labels when csi-node registers,
 * and never removes one.
 */
export function labelChanges(
  labels: Readonly<Record<string, string>>,
  cluster: string | undefined,
): LabelChanges | undefined {
  const keys = cluster === undefined ? [] : [agentTopologyKey, clusterTopologyKey(cluster)];
  const stale = Object.keys(labels).filter((key) => isTopologyLabel(key) && !keys.includes(key));
  const missing = keys.filter((key) => labels[key] !== topologyValue);
  if (stale.length === 0 && missing.length === 0) return undefined;
  return Object.fromEntries([...stale.map((key) => [key, null]), ...missing.map((key) => [key, topologyValue])]);
}

/** Pure. The merge patch by which a node loses all labels of ours; undefined: it has none. */
export function withoutTopologyLabels(labels: Readonly<Record<string, string>> | undefined): object | undefined {
  const changes = labelChanges(labels ?? {}, undefined);
  return changes && { metadata: { labels: changes } };
}

function isTopologyLabel(key: string): boolean {
  return key === agentTopologyKey || key.startsWith(clusterTopologyPrefix);
}
