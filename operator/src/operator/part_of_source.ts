import { isDeepStrictEqual } from 'node:util';
import type { Source } from '../kubernetes/index.ts';

/**
 * One room's part of objects of which other rooms see more: only objects with this part count as there, and the source
 * does not report a change outside of it.
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
