/** A StorageCluster as a Dataset sees it. */
export interface ClusterView {
  name: string;
  /** Folders below which directory sources may lie. */
  directoryPrefixes: readonly string[];
}

export type ClusterChoice =
  | { kind: 'found'; cluster: ClusterView }
  /** `name`: the one that was asked for; undefined: there is none at all. */
  | { kind: 'missing'; name: string | undefined }
  | { kind: 'ambiguous'; names: string[] }
  /** Another one is asked for than the one that has it. */
  | { kind: 'moved'; from: string; to: string };

/**
 * The StorageCluster of a Dataset: the one it names, else the only one. `present` is the one that has it already:
 * a Dataset that names none stays there when a second StorageCluster appears.
 */
export function chooseCluster(
  named: string | undefined,
  present: string | undefined,
  clusters: readonly ClusterView[],
): ClusterChoice {
  const wanted = named ?? present;
  const found = clusters.find((cluster) => cluster.name === wanted);
  if (named !== undefined) {
    if (found === undefined) return { kind: 'missing', name: named };
    const elsewhere = present !== undefined && present !== named && clusters.some((one) => one.name === present);
    return elsewhere ? { kind: 'moved', from: present, to: named } : { kind: 'found', cluster: found };
  }
  if (found !== undefined) return { kind: 'found', cluster: found };
  const [only, ...others] = clusters;
  if (only === undefined) return { kind: 'missing', name: undefined };
  if (others.length === 0) return { kind: 'found', cluster: only };
  return { kind: 'ambiguous', names: clusters.map((cluster) => cluster.name).sort() };
}
