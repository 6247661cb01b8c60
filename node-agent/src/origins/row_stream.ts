import type { ManifestRow } from '@hearth/engine';

/** Rows handed on at once. */
const pageRows = 1000;

/** Gathers single rows to pages. */
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
 * Results in the order of the items, with at most `limit` calls of `map` under way. The first failure ends
 * it; calls under way then finish unheard.
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
