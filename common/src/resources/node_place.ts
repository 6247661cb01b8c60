const zoneLabel = 'topology.kubernetes.io/zone';
/** Kubernetes has no label for racks; the second is for clusters that already have the first for something else. */
const rackLabels = ['hearth.storage/rack', 'topology.kubernetes.io/rack'];

/** Where a node is, by its labels; empty: they do not say. */
export function placeOf(labels: Readonly<Record<string, string>>): { zone: string; rack: string } {
  return {
    zone: labels[zoneLabel] ?? '',
    rack: rackLabels.map((label) => labels[label]).find((value) => value !== undefined) ?? '',
  };
}
