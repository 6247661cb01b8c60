import { HearthError } from '@hearth/common';
import type { ReconcileResult } from '@hearth/common/kubernetes';
import type { Pass, Reconciler } from './reconciler.ts';

/** observe -> plan -> apply. What fails before the first action is thrown; what an action fails with is in the answer. */
export async function runPass<T, Observed, Action>(
  reconciler: Reconciler<T, Observed, Action>,
  target: T,
  signal: AbortSignal,
): Promise<Pass<Observed, Action>> {
  const observed = await reconciler.observe(target, signal);
  const applied: Action[] = [];
  const waits: (number | undefined)[] = [];
  for (const action of reconciler.plan(target, observed)) {
    try {
      signal.throwIfAborted();
      waits.push((await reconciler.apply(action, target, signal))?.requeueAfterMs);
    } catch (thrown) {
      return { observed, applied, failure: { error: HearthError.from(thrown), action }, result: {} };
    }
    applied.push(action);
  }
  const due = [...waits, reconciler.requeueAfterMs?.(target, observed)].filter((wait) => wait !== undefined);
  return { observed, applied, result: due.length === 0 ? {} : { requeueAfterMs: Math.min(...due) } };
}

/**
 * The function that runController calls for each key of what has no conditions: errors are thrown to the queue, which tries
 * again. `get`: what is reconciled, by its key; undefined: it is gone, and nothing is to be done.
 */
export function reconcileKey<T, Observed, Action>(
  reconciler: Reconciler<T, Observed, Action>,
  get: (key: string) => T | undefined,
): (key: string, signal: AbortSignal) => Promise<ReconcileResult> {
  return async (key, signal) => {
    const target = get(key);
    if (target === undefined) return {};
    const { failure, result } = await runPass(reconciler, target, signal);
    if (failure !== undefined) throw failure.error;
    return result;
  };
}
