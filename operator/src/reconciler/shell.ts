import { HearthError, ignoring, type Logger, systemClock } from '@hearth/common';
import type { EventRecorder, KubernetesClient, ReconcileResult, Reflector } from '@hearth/common/kubernetes';
import { condition, findCondition, withFailure, writeStatus, writtenConditions } from './conditions.ts';
import { addFinalizer, hasFinalizer, removeFinalizer } from './finalizer.ts';
import type { ConditionState, ObjectReconciler, Pass, ReconciledObject, Reconciler } from './reconciler.ts';

export interface ShellOptions<T extends ReconciledObject, Observed, Action> {
  reconciler: ObjectReconciler<T, Observed, Action>;
  api: Pick<KubernetesClient, 'apply' | 'patch'>;
  objects: Pick<Reflector<T>, 'get'>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
  now?: () => Date;
}

const cleanUpAgainMs = 5_000;

/** Adapts a reconciler of a kind with conditions to runController. See Reconciler. */
export function reconcileObject<T extends ReconciledObject, Observed, Action>(
  options: ShellOptions<T, Observed, Action>,
): (key: string, signal: AbortSignal) => Promise<ReconcileResult> {
  const shell = new Shell(options);
  return async (key, signal) => {
    const object = options.objects.get(key);
    if (object === undefined) return {};
    try {
      if (object.metadata?.deletionTimestamp !== undefined) return await shell.delete(object, signal);
      return await shell.reconcile(object, signal);
    } catch (thrown) {
      if (HearthError.from(thrown).code === 'NotFound' && options.objects.get(key) === undefined) return {};
      throw thrown;
    }
  };
}

class Shell<T extends ReconciledObject, Observed, Action> {
  readonly #options: ShellOptions<T, Observed, Action>;

  constructor(options: ShellOptions<T, Observed, Action>) {
    this.#options = options;
  }

  async reconcile(given: T, signal: AbortSignal): Promise<ReconcileResult> {
    const { reconciler, api } = this.#options;
    let object = given;
    // Precedes everything that cleanUp must remove.
    if (reconciler.cleanUp !== undefined && !hasFinalizer(object)) {
      object = await addFinalizer(api, reconciler.type, object, signal);
    }
    let pass: Pass<Observed, Action>;
    try {
      pass = await runPass(reconciler, object, signal);
    } catch (thrown) {
      return await this.#failed(object, HearthError.from(thrown), unready(object), rememberedFigures(object), signal);
    }
    const { conditions, ...figures } = reconciler.status(object, pass);
    if (pass.failure !== undefined) {
      return await this.#failed(object, HearthError.from(pass.failure.error), conditions, figures, signal);
    }
    await this.#write(object, conditions, figures, signal);
    return pass.result;
  }

  async delete(object: T, signal: AbortSignal): Promise<ReconcileResult> {
    const { reconciler, api } = this.#options;
    if (reconciler.cleanUp === undefined || !hasFinalizer(object)) return {};
    const figures = rememberedFigures(object);
    try {
      const result = await reconciler.cleanUp(object, signal);
      if (result === 'done') {
        // An earlier pass may have removed the finalizer, which the watch has not shown yet.
        await removeFinalizer(api, reconciler.type, object, signal).catch(ignoring('NotFound'));
        return {};
      }
      const { waitingFor: message, reason = 'Deleting', requeueAfterMs = cleanUpAgainMs } = result;
      const deleting = condition('Ready', 'False', reason, message);
      await this.#write(object, [deleting, ...unready(object)], figures, signal);
      return { requeueAfterMs };
    } catch (thrown) {
      return await this.#failed(object, HearthError.from(thrown), unready(object), figures, signal);
    }
  }

  /** Reports a failure in the status and as an event, then throws it, so that the queue retries with backoff. */
  async #failed(
    object: T,
    error: HearthError,
    states: readonly ConditionState[],
    figures: object,
    signal: AbortSignal,
  ): Promise<never> {
    const { reconciler, events, logger } = this.#options;
    // A shutdown or a conflict needs no person.
    if (signal.aborted || error.code === 'Conflict') throw error;
    const conditions = withFailure(states, error);
    const ready = conditions.find(({ type }) => type === 'Ready');
    try {
      await this.#write(object, conditions, figures, signal, false);
    } catch (thrown) {
      logger.debug('failed to write the failure into the status', { error: thrown });
    }
    events.eventFor(reconciler.type, object, 'Warning', ready?.reason ?? error.code, ready?.message ?? error.message);
    throw error;
  }

  /** `announce`: report transitions by events. */
  async #write(
    object: T,
    states: readonly ConditionState[],
    figures: object,
    signal: AbortSignal,
    announce = true,
  ): Promise<void> {
    const { reconciler, api, events, now = () => systemClock.date() } = this.#options;
    const generation = object.metadata?.generation ?? 0;
    const before = object.status?.conditions;
    const conditions = writtenConditions(before, states, generation, now());
    const status = { ...figures, observedGeneration: generation, conditions };
    const written = await writeStatus(api, reconciler.type, object, status, signal);
    if (!written || !announce) return;
    for (const type of reconciler.announcedConditions ?? []) {
      const was = findCondition(before, type)?.status ?? 'Unknown';
      const is = findCondition(conditions, type);
      if (is?.status === 'False' && was !== 'False')
        events.eventFor(reconciler.type, object, 'Warning', `${type}${is.reason}`, is.message);
      if (is?.status === 'True' && was === 'False')
        events.eventFor(reconciler.type, object, 'Normal', `${type}${is.reason}`, is.message);
    }
    const was = findCondition(before, 'Ready');
    const is = findCondition(conditions, 'Ready');
    if (is === undefined || (was?.status === is.status && was.reason === is.reason)) return;
    const warning =
      is.status === 'False' && is.reason !== 'Deleting' && !reconciler.progressReasons?.includes(is.reason);
    events.eventFor(reconciler.type, object, warning ? 'Warning' : 'Normal', is.reason, is.message);
  }
}

/** The written status without conditions, for passes without results. */
function rememberedFigures(object: ReconciledObject): object {
  const { conditions: _, observedGeneration: __, ...figures } = object.status ?? {};
  return figures;
}

/** The written conditions except Ready. */
function unready(object: ReconciledObject): ConditionState[] {
  return (object.status?.conditions ?? []).filter(({ type }) => type !== 'Ready');
}

/** observe -> plan -> apply. Throws failures before the first action, and returns a failed action. */
async function runPass<T, Observed, Action>(
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

/** Adapts a reconciler without conditions to runController. `get` returns undefined for deleted targets. */
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
