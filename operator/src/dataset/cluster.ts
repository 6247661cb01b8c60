export interface ClusterView {
  name: string;
  /** Directories below which directory sources may lie. */
  directoryPrefixes: readonly string[];
}

export type ClusterChoice =
  | { kind: 'found'; cluster: ClusterView }
  /** `name`: the requested cluster; undefined when no cluster exists. */
  | { kind: 'missing'; name: string | undefined }
  | { kind: 'ambiguous'; names: string[] }
  /** The spec names another cluster than the one that caches the Dataset. */
  | { kind: 'moved'; from: string; to: string };

/** A Dataset without a reference stays with `present` when a second StorageCluster appears. */
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
