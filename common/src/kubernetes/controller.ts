import { type Clock, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import type { Logger } from '../logger.ts';
import type { Watch } from './watch.ts';
import { WorkQueue } from './work_queue.ts';

export interface ReconcileResult {
  /** Once more after this time, give or take a tenth. */
  requeueAfterMs?: number | undefined;
}

export interface ReconcileOutcome {
  key: string;
  seconds: number;
  result: 'success' | 'requeue' | 'error';
}

export interface ControllerOptions {
  name: string;
  /** Shut down by the controller at its end. Absent: one whose retries wait from half a second to a minute. */
  queue?: WorkQueue;
  /** The watches that add keys to the queue. */
  watches?: readonly Watch[];
  /** Sources that passes read and that wake no pass. */
  reads?: readonly Pick<Watch, 'synced'>[];
  /** Called once when all that it watches and reads is listed: the keys to begin with. */
  first?: () => Iterable<string>;
  /** Keys in work at a time. */
  workers: number;
  /**
   * Level-triggered: gets only the key and looks at the present state. Errors are logged and retried with back-off.
   * Must end soon after its signal aborts.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a reconciler without a wish returns nothing
  reconcile: (key: string, signal: AbortSignal) => Promise<ReconcileResult | void>;
  logger: Logger;
  signal: AbortSignal;
  /** Longest time of one reconcile: its signal aborts then. Absent: 300,000 ms. */
  timeoutMs?: number;
  /** For metrics. */
  observe?: (outcome: ReconcileOutcome) => void;
  clock?: Clock;
}

/** Time for a reconcile to end after its signal has aborted, ms. */
const settleMs = 10_000;

/**
 * Runs a controller until the signal aborts: starts its watches, waits for the first lists of all that it looks at (without
 * them what is not seen yet would count as gone), adds the first keys, and has workers reconcile what is in the queue, with
 * back-off after errors. Resolves when the last reconcile has ended and then the watches, the last one first. Throws only
 * `Cancelled`, when the signal aborts before all is listed.
 */
export async function runController(options: ControllerOptions): Promise<void> {
  const {
    queue = new WorkQueue({ firstDelayMs: 500, longestDelayMs: 60_000 }),
    watches = [],
    reads = [],
    first,
  } = options;
  const stops: (() => void)[] = [];
  try {
    for (const one of watches) stops.push(one.start(queue));
    await Promise.all([...watches, ...reads].map((one) => one.synced?.()));
    for (const key of first?.() ?? []) queue.add(key);
    await runWorkers({ ...options, queue });
  } finally {
    queue.shutDown();
    for (const stop of stops.reverse()) stop();
  }
}

type WithQueue = ControllerOptions & { queue: WorkQueue };

async function runWorkers(options: WithQueue): Promise<void> {
  const { queue, workers, signal } = options;
  const logger = options.logger.child({ controller: options.name });
  const shutDown = () => queue.shutDown();
  if (signal.aborted) shutDown();
  else signal.addEventListener('abort', shutDown, { once: true });
  const work = async () => {
    for (let key = await queue.next(); key !== undefined; key = await queue.next()) {
      if (signal.aborted) queue.done(key);
      else await reconcileKey(key, options, logger);
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  signal.removeEventListener('abort', shutDown);
}

/** One reconcile. The key is in work until it has ended, even if the worker does not wait for it any longer. */
async function reconcileKey(key: string, options: WithQueue, logger: Logger): Promise<void> {
  const { queue, reconcile, signal, timeoutMs = 300_000, observe, clock = systemClock } = options;
  const started = clock.now();
  const ending = new AbortController();
  const end = () => ending.abort();
  signal.addEventListener('abort', end, { once: true });
  const cancelTimeout = clock.schedule(timeoutMs, end);
  const settled = new AbortController();
  const work = (async () => {
    try {
      const result = await reconcile(key, ending.signal);
      queue.forget(key);
      const again = result?.requeueAfterMs;
      if (again !== undefined) queue.addAfter(key, again * (0.9 + clock.random() / 5));
      observe?.({ key, seconds: (clock.now() - started) / 1000, result: again === undefined ? 'success' : 'requeue' });
    } catch (thrown) {
      if (signal.aborted) return;
      const error = HearthError.from(thrown);
      const fields = { key, error, retries: queue.retries(key) };
      // A conflict says that another writer was faster; the next try sees what they did.
      if (error.code === 'Conflict') logger.debug('conflict while reconciling; retrying', fields);
      else logger.warn('failed to reconcile; retrying', fields);
      queue.addRateLimited(key);
      observe?.({ key, seconds: (clock.now() - started) / 1000, result: 'error' });
    } finally {
      cancelTimeout();
      signal.removeEventListener('abort', end);
      queue.done(key);
      settled.abort();
    }
  })();
  const overdue = (async () => {
    await aborted(ending.signal, settled.signal);
    await sleep(clock, settleMs, settled.signal);
    if (!settled.signal.aborted) logger.error('a cancelled reconcile is still running', { key });
  })();
  await Promise.race([work, overdue]);
}

/** Resolves when one of them aborts. */
function aborted(...signals: AbortSignal[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const signal of signals) {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  }
  return promise;
}
