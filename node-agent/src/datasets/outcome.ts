import type { HearthError } from '@hearth/common';
import type { ManifestInfo } from '@hearth/engine';
import type { OriginRevision } from '../origins/index.ts';
import type { DatasetRecord, DatasetRequest, RevisionRecord } from './record.ts';

/** The current revision of the record. */
export function revisionOf({ name, manifest, source, revision }: DatasetRecord, createdAt: number): RevisionRecord {
  return { dataset: name, manifest, source, revision, createdAt };
}

/** Outcome of an attempt to list an origin. */
export type Outcome =
  | { info: ManifestInfo; revision: OriginRevision; error: undefined }
  | { info: undefined; revision: undefined; error: HearthError };

/**
 * The record after an attempt. A failed attempt keeps the current revision in use and records the error; a dataset
 * fails as a whole only without any revision, or when `lost`, because no agent has its manifest.
 */
export function recordOf(
  name: string,
  request: DatasetRequest & Pick<DatasetRecord, 'credentialed'>,
  before: DatasetRecord | undefined,
  now: number,
  outcome: Outcome & { lost: boolean },
): DatasetRecord {
  const base = {
    name,
    source: request.source,
    include: [...request.include],
    exclude: [...request.exclude],
    credentialed: request.credentialed,
    createdAt: before?.createdAt ?? now,
    attempts: (before?.attempts ?? 0) + 1,
  };
  if (outcome.error !== undefined) {
    const { code, message } = outcome.error;
    const lastAttempt = { unchanged: false, errorCode: code, message };
    if (before?.manifest && outcome.lost) {
      const failure = `no agent has the dataset's list of files any more, and listing it again failed: ${message}`;
      const errorCode = code === 'OriginChanged' ? 'Unavailable' : code;
      return { ...before, ...base, state: 'Failed', errorCode, message: failure, lastAttempt };
    }
    if (before?.manifest)
      return { ...before, ...base, message: `the last listing of the origin failed: ${message}`, lastAttempt };
    const empty = { manifest: '', revision: '', files: 0, bytes: 0n, warnings: [] };
    return { ...base, ...empty, state: 'Failed', message, errorCode: code, lastAttempt };
  }
  const { info, revision } = outcome;
  return {
    ...base,
    manifest: info.digest,
    revision: revision.name,
    files: info.files,
    bytes: info.bytes,
    state: 'Ready',
    message: '',
    warnings: revision.warnings,
    lastAttempt: { unchanged: before?.manifest === info.digest && before.state === 'Ready', message: '' },
  };
}
