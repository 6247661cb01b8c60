import { channel } from 'node:diagnostics_channel';
import { type Clock, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import type { Logger } from '../logger.ts';
import type { Watch } from './watch.ts';
import { WorkQueue } from './work_queue.ts';

export interface ReconcileResult {
  /** Reconciles the key again after this time, with 10% jitter. */
  requeueAfterMs?: number | undefined;
}

/** The diagnostics channel on which each reconcile publishes its `ReconcileOutcome`. */
export const reconcileChannel = 'hearth.reconcile';
const reconciled = channel(reconcileChannel);

export interface ReconcileOutcome {
  controller: string;
  key: string;
  seconds: number;
  result: 'success' | 'requeue' | 'error';
}

export interface ControllerOptions {
  name: string;
  /** The controller shuts the queue down at its end. The default queue retries after half a second to a minute. */
  queue?: WorkQueue;
  /** Watches that add keys to the queue. */
  watches?: readonly Watch[];
  /** Sources that reconciles read but that enqueue no key. */
  reads?: readonly Pick<Watch, 'synced'>[];
  /** Called once after all initial lists; returns the first keys. */
  first?: () => Iterable<string>;
  /** Number of keys reconciled concurrently. */
  workers: number;
  /**
   * Level-triggered: receives only the key and reads the current state. Errors are logged and retried with back-off.
   * Must end soon after its signal aborts.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: a reconciler without a wish returns nothing
  reconcile: (key: string, signal: AbortSignal) => Promise<ReconcileResult | void>;
  logger: Logger;
  signal: AbortSignal;
  /** Maximum duration of one reconcile, after which its signal aborts. Default 300,000 ms. */
  timeoutMs?: number;
  clock?: Clock;
}

/** Time that a reconcile has to end after its signal aborts, ms. */
const settleMs = 10_000;

/**
 * Runs a controller until the signal aborts: starts the watches, waits for all initial lists (otherwise objects not
 * listed yet would look deleted), adds the first keys and reconciles keys with back-off after errors. Resolves when the
 * last reconcile and then the watches, last one first, have ended. Throws only `Cancelled`, when the signal aborts
 * before all lists are complete.
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

/** Reconciles one key. The key stays in work until the reconcile ends, even if the worker stops waiting for it. */
async function reconcileKey(key: string, options: WithQueue, logger: Logger): Promise<void> {
  const { queue, reconcile, signal, timeoutMs = 300_000, clock = systemClock } = options;
  const started = clock.now();
  const ended = (result: ReconcileOutcome['result']) => {
    const seconds = (clock.now() - started) / 1000;
    reconciled.publish({ controller: options.name, key, seconds, result } satisfies ReconcileOutcome);
  };
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
      ended(again === undefined ? 'success' : 'requeue');
    } catch (thrown) {
      if (signal.aborted) return;
      const error = HearthError.from(thrown);
      const fields = { key, error, retries: queue.retries(key) };
      // The retry observes the change of the faster writer.
      if (error.code === 'Conflict') logger.debug('conflict while reconciling; retrying', fields);
      else logger.warn('failed to reconcile; retrying', fields);
      queue.addRateLimited(key);
      ended('error');
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

/** Resolves when any of the signals aborts. */
function aborted(...signals: AbortSignal[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const signal of signals) {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  }
  return promise;
}
