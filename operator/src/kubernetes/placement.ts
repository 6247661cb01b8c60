import type { StorageCluster } from '@hearth/common/resources';
import type { NodeFacts } from './node_facts.ts';
import { selects } from './selection.ts';

/** The one group that a node belongs to. */
export interface Place {
  cluster: string;
  group: string;
}

/** A group selects a node that belongs to another one. */
export interface PlacementConflict {
  node: string;
  group: string;
  takenBy: Place;
}

export interface Placement {
  places: ReadonlyMap<string, Place>;
  /** By cluster. Conflicts of groups of the same cluster are among them. */
  conflicts: ReadonlyMap<string, readonly PlacementConflict[]>;
}

/**
 * Gives every node to the first group that selects it: of the oldest StorageCluster, in the order of its groups.
 * The others leave it out, so that two clusters never fight over a node. Clusters that are being deleted have none.
 */
export function placeNodes(clusters: readonly StorageCluster[], nodes: readonly NodeFacts[]): Placement {
  const places = new Map<string, Place>();
  const conflicts = new Map<string, PlacementConflict[]>();
  for (const { metadata, spec } of [...clusters].sort(byAge)) {
    if (metadata.deletionTimestamp !== undefined) continue;
    const cluster = metadata.name;
    const own: PlacementConflict[] = [];
    for (const group of spec.nodeGroups) {
      for (const node of nodes) {
        if (!selects(group, node)) continue;
        const takenBy = places.get(node.name);
        if (takenBy === undefined) places.set(node.name, { cluster, group: group.name });
        else own.push({ node: node.name, group: group.name, takenBy });
      }
    }
    if (own.length > 0) conflicts.set(cluster, own);
  }
  return { places, conflicts };
}

function byAge(a: StorageCluster, b: StorageCluster): number {
  const [left, right] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  if (left !== right) return left < right ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
