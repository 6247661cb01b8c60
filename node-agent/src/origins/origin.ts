import type { Clock } from '@hearth/common';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Location, ManifestEntry, ManifestRow } from '@hearth/engine';
import type { DirectoryCalls } from './directory_calls.ts';

/** How the engine reads every entry: the base, '/' and the entry's path (percent-encoded in URLs). Headers are secrets. */
export type OriginBase = Pick<Location, 'url' | 'path' | 'below' | 'headers'>;

/** The fields of a manifest's entry that `locate` needs. Without a size, answers are not compared with it. */
export type LocatableEntry = Pick<ManifestEntry, 'index' | 'path' | 'contentKey' | 'validator'> &
  Partial<Pick<ManifestEntry, 'size'>>;

export interface OriginRevision {
  /** The origin's own name of the revision (a commit), '' when it has none. */
  name: string;
  /** For people, each beginning with its name: `WeakValidator: ...`, `DigestOnly: ...`, `Redirected: ...`, `UnusableNames: ...`. */
  warnings: string[];
}

/**
 * Where a dataset's bytes come from, seen by the agent: it lists and locates; the engine fetches the bytes.
 * All errors are `HearthError` whose message has no credentials, headers or URL queries.
 * An origin may be used by several callers at once, but `list` runs one at a time.
 */
export interface Origin {
  readonly kind: 'directory' | 's3' | 'http' | 'hub' | 'selfTest';

  /** The source as a person typed it, without credentials. */
  describe(): string;

  /**
   * Lists the present revision, in pages so that millions of files need bounded memory. Rows come in any
   * order; names that the manifest cannot hold are passed on for its builder to refuse, but for those that
   * no string can hold (not UTF-8), which are refused or skipped here as the source's `unusableNames` says.
   * `signal` ends it with `Cancelled`. `OriginChanged` when the origin changes while it is being listed.
   */
  list(signal: AbortSignal): AsyncIterable<ManifestRow[]>;

  /**
   * The path by which `include` and `exclude` choose an entry; undefined: the entry belongs to every choice. Absent: the
   * path of the entry.
   */
  chosenBy?(path: string): string | undefined;

  /** Of the last complete `list`; before it: the revision that the origin was created for, without warnings. */
  revision(): OriginRevision;

  /** When every location is a base and the path: the engine then asks no questions. Needs no listing before it. */
  base(): OriginBase | undefined | Promise<OriginBase>;

  /** `locate` makes no requests: it may be asked for what is not read yet. */
  readonly locatesFreely: boolean;

  /**
   * The present places of these entries' bytes. Needs no listing before it. The results are bearer secrets. A missing
   * entry makes the whole call `NotFound`; with `partly` the result leaves it out instead, and `NotFound` is about the
   * whole origin.
   */
  locate(entries: LocatableEntry[], signal: AbortSignal, partly?: boolean): Promise<Location[]>;

  /**
   * The part of the origin that a file belongs to, where rights may differ from part to part. Who may read the first and
   * the last file of a part is taken to be allowed all of it.
   */
  partOf(row: ManifestRow): string;

  /** Reads one byte of a file that is not empty, by the location that the engine would be given for it. */
  readByte(entry: LocatableEntry, signal: AbortSignal): Promise<void>;

  /** Closes idle connections; the origin is spent. Idempotent. */
  close(): void;
}

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** The agent's knowledge beside the source: credentials and policy. Nothing of it is stored. */
export interface OriginOptions {
  /** Name of the revision listed earlier (`Dataset.revision`); a hub origin then lists and locates exactly it. */
  revision?: string;
  /** For http and hub origins: a bearer token, sent to the hosts that the source names and never on a redirect to others. */
  token?: string;
  /** For S3; absent: see `nodeIdentity`. */
  credentials?: S3Credentials;
  /**
   * For S3 without credentials: the usual AWS chain (environment, profile, instance), and without any, unsigned requests
   * (true, the default), or unsigned requests (false).
   */
  nodeIdentity?: boolean;
  /** `HF_TOKEN`, `HF_ENDPOINT`, `AWS_ENDPOINT_URL_S3`, `HTTPS_PROXY`, ...; by default those of the process. */
  environment?: Readonly<Record<string, string | undefined>>;
  /** Addresses and ranges (CIDR) that are allowed although they are loopback, link-local or private. */
  allowedAddresses?: readonly string[];
  /** Absolute paths below which directory origins may lie; absent: everywhere; empty: nowhere. */
  allowedDirectories?: readonly string[];
  /** The calls on directories; default: calls of this origin alone. */
  directoryCalls?: DirectoryCalls;
  /** Folder of files that a hub origin makes itself; default: below the temporary folder of this machine. */
  hubReferencesDirectory?: string;
  /** Folder of the built-in files; default: where the image has them. */
  selfTestDirectory?: string;
  /** File with the certificate authorities (PEM) for https; absent or empty: the system's. As the engine's option. */
  certificateAuthorities?: string;
  /** How long presigned locations hold, seconds; default 3600. */
  locationSeconds?: number;
  /** Tries of one request to the origin, default 5, and the first pause between them, default 250 ms, doubled each time. */
  attempts?: number;
  pauseMs?: number;
  clock?: Clock;
}

export type { Location, ManifestRow, Source };
