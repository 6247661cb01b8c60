import { createHash } from 'node:crypto';
import type { CachePreload } from '@hearth/common/resources';
import type { Measure, ObservedDataset, ObservedPreload } from './observation.ts';

/** Files of one revision of a Dataset that are to be on nodes. */
export interface Wanted {
  /** Names revision and files, in names of jobs and owners of pins. */
  id: string;
  dataset: string;
  registered: string;
  manifest: string;
  revision: string;
  paths: readonly string[];
  /** Of the Dataset, for what is to be asked of agents. */
  trouble: ObservedDataset['trouble'];
  /** Undefined: agents have not answered yet. */
  measure: Measure | undefined;
}

export function wantedId(registered: string, manifest: string, paths: readonly string[]): string {
  return shortHash([registered, manifest, [...paths].sort()]);
}

/** Ten hexadecimal digits that stand for a value. */
export function shortHash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 10);
}

/**
 * Pure. The revision of each Dataset that is preloaded: with `Once` the one that it had when it was bound first, as long
 * as agents know it; with `Every`, and while pods wait, which will start with no other, its present one. Datasets that have
 * none yet are left out.
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
