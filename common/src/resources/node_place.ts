const zoneLabel = 'topology.kubernetes.io/zone';
/** Kubernetes defines no rack label; the second serves clusters where the first has another meaning. */
const rackLabels = ['hearth.storage/rack', 'topology.kubernetes.io/rack'];

/** Zone and rack of a node by its labels; empty where labels are missing. */
export function placeOf(labels: Readonly<Record<string, string>>): { zone: string; rack: string } {
  return {
    zone: labels[zoneLabel] ?? '',
    rack: rackLabels.map((label) => labels[label]).find((value) => value !== undefined) ?? '',
  };
}
