import { CreateWarmJobRequest, type WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { type CachePreload, parseQuantity } from '@hearth/common/resources';
import { shortHash, type Wanted } from './wanted.ts';

/** The highest priority of the spec, which agents serve first; theirs count the other way. */
const highestPriority = 1000;

/** The prefix of all warm jobs of a CachePreload. */
export function jobPrefix(uid: string): string {
  return `preload-${uid}-`;
}

/** The uid of the CachePreload that a job was made for; undefined: for none. */
export function uidOfJob(name: string): string | undefined {
  return /^preload-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-/.exec(name)?.[1];
}

/** The prefix of all owners of pins of a CachePreload; `uid` empty: of all CachePreloads. */
export function ownerPrefix(uid: string): string {
  return uid === '' ? 'preload/' : `preload/${uid}/`;
}

export function uidOfOwner(owner: string): string | undefined {
  return /^preload\/([^/]+)\//.exec(owner)?.[1];
}

export function pinOwner(uid: string, wanted: Pick<Wanted, 'id'>): string {
  return `${ownerPrefix(uid)}${wanted.id}`;
}

/** The part of the names of jobs that do the same in the same way, whatever their nodes. */
export function jobKind({ metadata, spec }: CachePreload, wanted: Pick<Wanted, 'id'>): string {
  const how = shortHash([spec.rateLimit ?? {}, spec.verify, spec.priority]);
  return `${jobPrefix(metadata.uid ?? '')}${wanted.id}-${how}-`;
}

/**
 * The job that brings this to these nodes. Its name follows from what it does, so that a restarted operator names the
 * same one.
 */
export function jobRequest(preload: CachePreload, wanted: Wanted, nodes: readonly string[]): CreateWarmJobRequest {
  const { spec } = preload;
  const sorted = [...nodes].sort();
  return CreateWarmJobRequest.fromPartial({
    name: `${jobKind(preload, wanted)}${shortHash(sorted)}`,
    ensure: true,
    dataset: wanted.registered,
    manifest: wanted.manifest,
    paths: [...wanted.paths],
    nodes: sorted,
    priority: highestPriority - spec.priority,
    rateLimit: parseQuantity(spec.rateLimit?.origin ?? '0') ?? 0n,
    peerRateLimit: parseQuantity(spec.rateLimit?.network ?? '0') ?? 0n,
    readyWhen: spec.readyWhen === 'Memory' ? 'memory' : 'stored',
    verify: spec.verify === 'SourceDigest' ? 'digest' : 'checksum',
  });
}

export function hasEnded({ state }: Pick<WarmJob, 'state'>): boolean {
  return state === 'Succeeded' || state === 'Failed' || state === 'Cancelled';
}
