import type { Clock, HearthError } from '@hearth/common';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Location, ManifestEntry, ManifestRow } from '@hearth/engine';
import type { DirectoryCalls } from './directory_calls.ts';
import type { PublishedVolumes } from './volume_origin.ts';

/**
 * How the engine reads every entry: the base, '/' and the entry's path (percent-encoded in URLs). Headers are secrets.
 */
export type OriginBase = Pick<Location, 'url' | 'path' | 'below' | 'headers'>;

/** The fields of a manifest's entry that `locate` needs. Without a size, responses are not checked against it. */
export type LocatableEntry = Pick<ManifestEntry, 'index' | 'path' | 'contentKey' | 'validator'> &
  Partial<Pick<ManifestEntry, 'size'>>;

export interface OriginRevision {
  /** The origin's own name of the revision (a commit); '' without one. */
  name: string;
  /**
   * Warnings for people, each with its name first: `WeakValidator: ...`, `DigestOnly: ...`, `Redirected: ...`,
   * `UnusableNames: ...`.
   */
  warnings: string[];
}

/**
 * The agent's view of a dataset's origin: the agent lists and locates, the engine fetches. All errors are `HearthError`
 * without credentials, headers or URL queries in the message. An origin allows concurrent callers, but only one `list`
 * at a time.
 */
export interface Origin {
  readonly kind: 'directory' | 's3' | 'http' | 'hub' | 'selfTest' | 'volume';

  /** The source as a person wrote it, without credentials. */
  describe(): string;

  /**
   * Lists the current revision in pages, so that millions of files need bounded memory. Rows come in any order. Names
   * that a manifest cannot hold are passed on for its builder to refuse; names that no string can hold (not UTF-8) are
   * refused or skipped here by the source's `unusableNames`. Throws `Cancelled` when `signal` aborts, and
   * `OriginChanged` when the origin changes during the listing.
   */
  list(signal: AbortSignal): AsyncIterable<ManifestRow[]>;

  /**
   * The path that `include` and `exclude` match for an entry; undefined: the entry is always included. Absent: the
   * entry's path.
   */
  chosenBy?(path: string): string | undefined;

  /** The revision of the last complete `list`; before that, the revision given at creation, without warnings. */
  revision(): OriginRevision;

  /**
   * The common base when every location is base and path; the engine then asks no questions. Needs no prior listing.
   */
  base(): OriginBase | undefined | Promise<OriginBase>;

  /** True when `locate` makes no requests of each entry, so entries may be located ahead of reads. */
  readonly locatesFreely: boolean;

  /** The error of an entry that `locate` leaves out. Absent: `NotFound`. */
  readonly lackingError?: HearthError;

  /**
   * Current locations of these entries, which are bearer secrets. Needs no prior listing. A missing entry fails the
   * call with `NotFound`; with `allowMissing` the result omits it, and `NotFound` means that the whole origin is missing.
   */
  locate(entries: LocatableEntry[], signal: AbortSignal, allowMissing?: boolean): Promise<Location[]>;

  /**
   * The part of the origin that a file belongs to; access rights may differ between parts. A reader of the first and
   * last file of a part is assumed to be allowed all of the part.
   */
  partOf(row: ManifestRow): string;

  /** Reads one byte of a non-empty file from the location that the engine would use. */
  readByte(entry: LocatableEntry, signal: AbortSignal): Promise<void>;

  /** Closes idle connections; the origin is unusable afterwards. Idempotent. */
  close(): void;
}

export interface S3Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** The agent's credentials and policy for a source. Never stored. */
export interface OriginOptions {
  /**
   * Name of a previously listed revision (`Dataset.revision`); a hub origin then lists and locates exactly that one.
   */
  revision?: string;
  /**
   * Bearer token for http and hub origins, sent only to hosts that the source names, never after a redirect to another
   * host.
   */
  token?: string;
  /** S3 credentials; without them see `nodeIdentity`. */
  credentials?: S3Credentials;
  /**
   * For S3 without credentials. true (default): the usual AWS chain (environment, profile, instance), and unsigned
   * requests if the chain is empty. false: unsigned requests.
   */
  nodeIdentity?: boolean;
  /** `HF_TOKEN`, `HF_ENDPOINT`, `AWS_ENDPOINT_URL_S3`, `HTTPS_PROXY`, ...; default: the process's environment. */
  environment?: Readonly<Record<string, string | undefined>>;
  /** Allowed addresses and CIDR ranges among loopback, link-local and private ones. */
  allowedAddresses?: readonly string[];
  /** Absolute paths that may contain directory origins; absent: everywhere; empty: nowhere. */
  allowedDirectories?: readonly string[];
  /** Shared runner of calls on directories; default: one of this origin. */
  directoryCalls?: DirectoryCalls;
  /** Folder of files that a hub origin makes itself; default: below the system's temporary folder. */
  hubReferencesDirectory?: string;
  /** Folder of the built-in files; default: their location in the image. */
  selfTestDirectory?: string;
  /** CA file (PEM) for https; absent or empty: the system's. Like the engine's option. */
  certificateAuthorities?: string;
  /** Lifetime of presigned locations in seconds; default 3600. */
  locationSeconds?: number;
  /** Attempts for one request, default 5, and the first pause between them, default 250 ms, which doubles each time. */
  attempts?: number;
  pauseMs?: number;
  clock?: Clock;
  /** The cluster's writable volumes; absent: volume sources are unsupported. */
  volumes?: PublishedVolumes;
}

export type { Location, ManifestRow, Source };
