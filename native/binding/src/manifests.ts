export type EntryKind = 'file' | 'directory' | 'symlink';

/** One row for the manifest builder. Directories that only hold other rows are made by the builder. */
export interface ManifestRow {
  /** Relative, '/' between names, valid UTF-8. */
  path: string;
  kind: EntryKind;
  /** Bytes; 0 but for files. */
  size: bigint;
  /** Files: SHA-256 that names the content, 64 hexadecimal digits. */
  contentKey?: string;
  /** Files: offset of the bytes in the origin's object. */
  objectOffset?: bigint;
  /** Files: SHA-256 of the bytes as the origin gives it, if it does. */
  sourceDigest?: string;
  /** Files: what must still be true of the origin's object: `etag:"..."`, `compared-etag:"..."`, `modified:<HTTP date>`, `stat:<mtimeNs>:<ctimeNs>:<inode>:<links>:<mode>:<uid>:<gid>`, `volume:<volume>:<inode>`, or empty. */
  validator?: string;
  executable?: boolean;
  symlinkTarget?: string;
  modifiedAtNs?: bigint;
}

export interface ManifestInfo {
  /** SHA-256 of the manifest, 64 hexadecimal digits. */
  digest: string;
  entries: number;
  files: number;
  directories: number;
  symlinks: number;
  /** Sum of all files' sizes. */
  bytes: bigint;
}

export interface ManifestEntry {
  index: number;
  path: string;
  kind: EntryKind;
  size: bigint;
  contentKey: string;
  sourceDigest: string;
  validator: string;
  symlinkTarget: string;
  executable: boolean;
  /** Bytes of this file resident on this agent. */
  residentBytes: bigint;
}

export interface ManifestBuilder {
  /** Rows in any order. */
  add(rows: ManifestRow[]): void;
  /** Names that were refused so far (first ten): `path: reason`. With `skipUnusable` they are left out, else finish fails. */
  unusable(): string[];
}
