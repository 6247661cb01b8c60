/**
 * Yields results in the order of the items, with at most `limit` in progress. Starts nothing after the signal aborts.
 */
export async function* mapInOrder<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
  signal: AbortSignal,
): AsyncGenerator<R> {
  const running: Promise<R>[] = [];
  let next = 0;
  const begin = () => {
    const item = items[next++];
    if (item === undefined) return;
    const started = work(item);
    // A failure is thrown in its turn; until then it must not count as unhandled.
    started.catch(() => {});
    running.push(started);
  };
  while (running.length < limit && next < items.length) begin();
  for (let first = running.shift(); first !== undefined; first = running.shift()) {
    signal.throwIfAborted();
    const result = await first;
    begin();
    yield result;
  }
}
