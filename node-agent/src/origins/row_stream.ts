import type { ManifestRow } from '@hearth/engine';

/** Rows in a page. */
const pageRows = 1000;

/** Collects single rows into pages. */
export async function* inPages(rows: AsyncIterable<ManifestRow>): AsyncGenerator<ManifestRow[]> {
  let page: ManifestRow[] = [];
  for await (const row of rows) {
    page.push(row);
    if (page.length < pageRows) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}

/**
 * Yields results in the order of the items, with at most `limit` concurrent calls of `map`. The first failure ends the
 * iteration; results of calls in flight are dropped.
 */
export async function* mapConcurrently<Item, Result>(
  items: AsyncIterable<Item> | Iterable<Item>,
  limit: number,
  map: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const window: Promise<Result>[] = [];
  for await (const item of items) {
    const call = map(item);
    call.catch(() => undefined); // awaited below, or unheard after a failure
    window.push(call);
    const first = window.length >= limit ? window.shift() : undefined;
    if (first !== undefined) yield await first;
  }
  for (const call of window) yield await call;
}

/** All results of `mapConcurrently`. */
export async function collectConcurrently<Item, Result>(
  items: Iterable<Item>,
  limit: number,
  map: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for await (const result of mapConcurrently(items, limit, map)) results.push(result);
  return results;
}
