/** What the name of a volume was given to. */
export interface VolumeRecord {
  name: string;
  /** As the agents know it: `NAMESPACE.NAME`. */
  dataset: string;
  capacityBytes: bigint;
  /** Digest of the manifest when the volume keeps to one revision, else ''. */
  manifest: string;
}

/** The volumes of a cluster: names and what they stand for, no bytes. Errors are `HearthError`. */
export interface VolumeBook {
  get(name: string, signal: AbortSignal): Promise<VolumeRecord | undefined>;
  /** `AlreadyExists` when the name was given to something else; the same record again is no error. */
  create(record: VolumeRecord, signal: AbortSignal): Promise<void>;
  /** In no particular order. */
  list(signal: AbortSignal): Promise<VolumeRecord[]>;
  /** No error when there is none. */
  delete(name: string, signal: AbortSignal): Promise<void>;
}

export interface CatalogEntry {
  /** Bytes of the present revision. */
  bytes: bigint;
  /** Whether there is a revision that can be mounted. */
  ready: boolean;
  /** Why not, in a sentence of the agent's. */
  message: string;
}

/** The datasets of one cluster. */
export interface DatasetCatalog {
  /** Name of the StorageCluster. */
  cluster(signal: AbortSignal): Promise<string>;
  /** By `NAMESPACE.NAME`; undefined when the agents do not know it. */
  find(dataset: string, signal: AbortSignal): Promise<CatalogEntry | undefined>;
}
