import {
  agentsLabel,
  agentsLabelPrefix,
  agentTopologyKey,
  clusterTopologyKey,
  clusterTopologyPrefix,
  topologyValue,
} from '@hearth/common/names';
import { agentsOn, type Place } from '../kubernetes/index.ts';

/** Changes to labels as a merge patch names them: null removes one. */
export type LabelChanges = Record<string, string | null>;
type Labels = Readonly<Record<string, string>>;

/**
 * Pure. What has to change in a node's labels so that agents of its node group run there and volumes of its StorageCluster
 * alone can be used there; undefined: nothing. `place` undefined: the node belongs to no StorageCluster. `inUse`: pods mount
 * volumes by the agent of a group that the node belonged to; then that agent stays, and no other comes. The kubelet writes the
 * topology labels too when csi-node registers, and never removes one.
 */
export function labelChanges(labels: Labels, place: Place | undefined, inUse: boolean): LabelChanges | undefined {
  const wanted: Record<string, string> = {};
  if (inUse) for (const { cluster, group } of agentsOn(labels)) wanted[agentsLabel(cluster)] = group;
  else if (place !== undefined) wanted[agentsLabel(place.cluster)] = place.group;
  // Where agents of another StorageCluster still are, no volume of this one can be used.
  if (place !== undefined && agentsLabel(place.cluster) in wanted) {
    wanted[agentTopologyKey] = topologyValue;
    wanted[clusterTopologyKey(place.cluster)] = topologyValue;
  }
  const stale = Object.keys(labels).filter((key) => isOurs(key) && !(key in wanted));
  const missing = Object.entries(wanted).filter(([key, value]) => labels[key] !== value);
  if (stale.length === 0 && missing.length === 0) return undefined;
  return Object.fromEntries([...stale.map((key) => [key, null]), ...missing]);
}

/** Pure. The merge patch by which a node loses all labels of ours; undefined: it has none. */
export function withoutTopologyLabels(labels: Labels | undefined): object | undefined {
  const changes = labelChanges(labels ?? {}, undefined, false);
  return changes && { metadata: { labels: changes } };
}

function isOurs(key: string): boolean {
  return key === agentTopologyKey || key.startsWith(clusterTopologyPrefix) || key.startsWith(agentsLabelPrefix);
}
