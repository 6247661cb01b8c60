import type { Logger } from '../logger.ts';
import type { WorkQueue } from './work_queue.ts';

export interface ReconcileResult {
  /** Once more after this time. */
  requeueAfterMs?: number | undefined;
}

export interface ControllerOptions {
  name: string;
  queue: WorkQueue;
  workers: number;
  /** Level-triggered: gets only the key and looks at the present state. Thrown errors are logged and retried with back-off. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a reconciler without a wish returns nothing
  reconcile: (key: string, signal: AbortSignal) => Promise<ReconcileResult | void>;
  logger: Logger;
  signal: AbortSignal;
  /** Longest time of one reconcile: its signal aborts then. Absent: 300,000 ms. */
  timeoutMs?: number;
  /** For metrics. */
  observe?: (outcome: { key: string; seconds: number; result: 'success' | 'requeue' | 'error' }) => void;
}

/** Runs workers on a queue until the signal aborts; resolves when the last running reconcile has ended. Never throws. */
export declare function runController(options: ControllerOptions): Promise<void>;
