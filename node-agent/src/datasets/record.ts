import { HearthError } from '@hearth/common';
import { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { z } from 'zod';
import { mirrorsOf } from '../origins/index.ts';
import { errorCodeSchema, unsigned } from '../records/index.ts';

const sourceSchema = z.codec(z.record(z.string(), z.unknown()), z.custom<Source>(), {
  decode: (json) => Source.fromJSON(json),
  encode: (source) => Source.toJSON(source) as Record<string, unknown>,
});

/** `datasets/<name>`: what a name means to the cluster. No secrets: `refuseSecrets` sees to it. */
export const datasetSchema = z.object({
  name: z.string(),
  source: sourceSchema,
  include: z.array(z.string()),
  exclude: z.array(z.string()),
  /** '' until the origin was listed once. */
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
  /** The dataset has credentials of its own, which agents keep in memory: nothing else may be used for its origin. */
  credentialed: z.boolean().default(false),
  /** Counts the ends of attempts to list the origin, also those that found no change or failed. */
  attempts: z.int(),
  /** How the last attempt ended, for those who waited for it. */
  lastAttempt: z.object({ unchanged: z.boolean(), errorCode: errorCodeSchema.optional(), message: z.string() }),
});
export type DatasetRecord = z.output<typeof datasetSchema>;

/**
 * `revisions/<manifest>/<dataset>`: where the bytes of a manifest come from, as long as they may still be used
 * it: mounts and warm jobs keep the revision that they began with when the dataset gets a new one.
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

/** Names of datasets, jobs and pin owners are parts of keys and of paths. */
export function checkName(what: string, name: string): void {
  if (namePattern.test(name)) return;
  throw new HearthError(
    'InvalidArgument',
    `"${name}" cannot be the name of a ${what}; use 1 to 128 letters, digits, ".", "_" or "-", beginning and ending with a letter or digit`,
  );
}

/**
 * No ready agent has its manifest, and it could not be made anew: one that comes back with it makes the dataset Ready again.
 * `OriginChanged` is the other failure of a dataset that was listed once.
 */
export function isLost({ state, manifest, errorCode }: DatasetRecord): boolean {
  return state === 'Failed' && manifest !== '' && errorCode !== 'OriginChanged';
}

/** The same source and choice of files: adding a dataset again under its name is then a new look at its origin. */
export function sameRequest(a: DatasetRequest, b: DatasetRequest): boolean {
  return requestText(a) === requestText(b);
}

export interface DatasetRequest {
  source: Source;
  include: readonly string[];
  exclude: readonly string[];
}

/** Mirrors may be others every time: what is listed does not depend on them. */
function requestText({ source, include, exclude }: DatasetRequest): string {
  return JSON.stringify([Source.toJSON({ ...source, mirrors: undefined }), include, exclude]);
}

/** Every agent reads the store's records and keeps them on disk: no credentials may be in them. */
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
