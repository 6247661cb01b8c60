import { isDeepStrictEqual } from 'node:util';
import type { Source } from '../kubernetes/index.ts';

/**
 * What one room sees of objects of which others see more: only those that have this part count as there, and a change
 * that does not show in it is not reported.
 */
export function partOfSource<P, Q>(source: Source<P>, part: (value: P) => Q | undefined): Source<Q> {
  const of = (value: P | undefined) => (value === undefined ? undefined : part(value));
  return {
    get: (key) => of(source.get(key)),
    all: () => source.all().flatMap((value) => of(value) ?? []) as Q[],
    keys: () => source.keys().filter((key) => of(source.get(key)) !== undefined),
    synced: () => source.synced(),
    onChange: (listener) =>
      source.onChange((key, before, after) => {
        const [was, is] = [of(before), of(after)];
        if (was !== is && !isDeepStrictEqual(was, is)) listener(key, was, is);
      }),
  };
}
