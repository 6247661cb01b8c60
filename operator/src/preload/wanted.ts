import { createHash } from 'node:crypto';
import { CreateWarmJobRequest, type WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { type CachePreload, parseQuantity } from '@hearth/common/resources';
import type { Measure, ObservedDataset, ObservedPreload } from './observation.ts';

/** Files of one revision of a Dataset that nodes should hold. */
export interface Wanted {
  /** Identifies revision and files in names of jobs and owners of pins. */
  id: string;
  dataset: string;
  registered: string;
  manifest: string;
  revision: string;
  paths: readonly string[];
  trouble: ObservedDataset['trouble'];
  measure: Measure | undefined;
}

export function wantedId(registered: string, manifest: string, paths: readonly string[]): string {
  return shortHash([registered, manifest, [...paths].sort()]);
}

export function shortHash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 10);
}

/**
 * Pure. `Once` keeps the first bound revision while agents know it. `Every`, and waiting pods, which mount no other
 * revision, take the present one. Leaves out Datasets without a revision.
 */
export function wantedOf(
  { spec, status }: CachePreload,
  observed: Pick<ObservedPreload, 'datasets' | 'measures' | 'pods'>,
): Wanted[] {
  const follows = spec.revisions === 'Every' || (observed.pods?.waiting ?? 0) > 0;
  return observed.datasets.flatMap((dataset, index): Wanted[] => {
    const { name, registered, present, trouble } = dataset;
    if (present === undefined) return [];
    const paths = spec.datasets[index]?.paths ?? [];
    const bound = status?.revisions?.find((one) => one.dataset === name);
    const boundId = wantedId(registered, bound?.manifest ?? '', paths);
    const keeps =
      bound !== undefined &&
      (!follows || present.manifest === '') &&
      observed.measures.get(boundId)?.kind !== 'unknown';
    const { manifest, revision } = keeps ? bound : present;
    if (manifest === '') return [];
    const id = wantedId(registered, manifest, paths);
    return [{ id, dataset: name, registered, manifest, revision, paths, trouble, measure: observed.measures.get(id) }];
  });
}

export function bytesOf({ measure }: Wanted): number {
  return measure?.kind === 'files' ? Number(measure.bytes) : 0;
}

/** The highest priority of the spec; agents count the other way. */
const highestPriority = 1000;

export function jobPrefix(uid: string): string {
  return `preload-${uid}-`;
}

export function uidOfJob(name: string): string | undefined {
  return /^preload-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-/.exec(name)?.[1];
}

/** The prefix of all pin owners of a CachePreload, or of all CachePreloads for an empty uid. */
export function ownerPrefix(uid: string): string {
  return uid === '' ? 'preload/' : `preload/${uid}/`;
}

export function uidOfOwner(owner: string): string | undefined {
  return /^preload\/([^/]+)\//.exec(owner)?.[1];
}

export function pinOwner(uid: string, wanted: Pick<Wanted, 'id'>): string {
  return `${ownerPrefix(uid)}${wanted.id}`;
}

/** The job name without its nodes: jobs of one kind do the same work. */
export function jobKind({ metadata, spec }: CachePreload, wanted: Pick<Wanted, 'id'>): string {
  const how = shortHash([spec.rateLimit ?? {}, spec.verify, spec.priority]);
  return `${jobPrefix(metadata.uid ?? '')}${wanted.id}-${how}-`;
}

/** The name is a digest of the request, so a restarted operator names the same job. */
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
