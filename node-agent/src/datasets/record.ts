import { HearthError } from '@hearth/common';
import { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { z } from 'zod';
import { mirrorsOf } from '../origins/index.ts';
import { errorCodeSchema, unsigned } from '../records/index.ts';

const sourceSchema = z.codec(z.record(z.string(), z.unknown()), z.custom<Source>(), {
  decode: (json) => Source.fromJSON(json),
  encode: (source) => Source.toJSON(source) as Record<string, unknown>,
});

/** `datasets/<name>`: the meaning of a name in the cluster. Contains no secrets, which `refuseSecrets` ensures. */
export const datasetSchema = z.object({
  name: z.string(),
  source: sourceSchema,
  include: z.array(z.string()),
  exclude: z.array(z.string()),
  /** '' until the first successful listing. */
  manifest: z.string(),
  revision: z.string(),
  files: z.int(),
  bytes: unsigned,
  state: z.enum(['Ready', 'Failed']),
  message: z.string(),
  errorCode: errorCodeSchema.optional(),
  warnings: z.array(z.string()),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  /** True when the dataset has its own credentials, which agents keep in memory and use exclusively for its origin. */
  credentialed: z.boolean().default(false),
  /** Counts completed attempts to list the origin, including unchanged and failed ones. */
  attempts: z.int(),
  /** Outcome of the last attempt, for callers that waited for it. */
  lastAttempt: z.object({ unchanged: z.boolean(), errorCode: errorCodeSchema.optional(), message: z.string() }),
});
export type DatasetRecord = z.output<typeof datasetSchema>;

/**
 * `revisions/<manifest>/<dataset>`: source of a manifest's bytes, kept while mounts and warm jobs may still use a
 * former revision.
 */
export const revisionSchema = z.object({
  dataset: z.string(),
  manifest: z.string(),
  source: sourceSchema,
  revision: z.string(),
  createdAt: z.number(),
});
export type RevisionRecord = z.output<typeof revisionSchema>;

/** `resolving/<name>`: held under a lease by the agent that lists the origin. */
export const resolvingSchema = z.object({
  name: z.string(),
  node: z.string(),
  source: sourceSchema,
  filesListed: z.int(),
  bytesListed: unsigned,
  startedAt: z.number(),
});
export type ResolvingRecord = z.output<typeof resolvingSchema>;

const namePattern = /^[a-z0-9A-Z]([-a-zA-Z0-9._]{0,126}[a-zA-Z0-9])?$/;

/** Names of datasets, jobs and pin owners are parts of keys and paths. */
export function checkName(what: string, name: string): void {
  if (namePattern.test(name)) return;
  throw new HearthError(
    'InvalidArgument',
    `"${name}" cannot be the name of a ${what}; use 1 to 128 letters, digits, ".", "_" or "-", beginning and ending with a letter or digit`,
  );
}

/**
 * True when no ready agent has the manifest and listing again failed; an agent that comes back with the manifest makes
 * the dataset Ready. `OriginChanged` is the other failure of a dataset that was listed once.
 */
export function isLost({ state, manifest, errorCode }: DatasetRecord): boolean {
  return state === 'Failed' && manifest !== '' && errorCode !== 'OriginChanged';
}

/** Equal source and choice of files: adding the dataset again lists its origin again. */
export function sameRequest(a: DatasetRequest, b: DatasetRequest): boolean {
  return requestText(a) === requestText(b);
}

export interface DatasetRequest {
  source: Source;
  include: readonly string[];
  exclude: readonly string[];
}

/** Mirrors and the wait of reads may differ, because the listing does not depend on them. */
function requestText({ source, include, exclude }: DatasetRequest): string {
  const listed = { ...source, mirrors: undefined, originWaitSeconds: undefined };
  return JSON.stringify([Source.toJSON(listed), include, exclude]);
}

/** Every agent reads the store's records and keeps them on disk, so they must not contain credentials. */
export function refuseSecrets(source: Source): void {
  for (const mirror of mirrorsOf(source)) refuseSecrets(mirror);
  if (source.kind?.$case !== 'http') return;
  for (const text of source.kind.value.urls) {
    const url = URL.parse(text);
    if (url !== null && (url.search !== '' || url.username !== '' || url.password !== '')) {
      throw new HearthError(
        'InvalidArgument',
        `the URL of ${url.host} has a query, user or password, which may be credentials and are never stored; use a URL without them, or an s3:// or hf:// source whose credentials stay with the agent`,
      );
    }
  }
}
