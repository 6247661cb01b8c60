import type { KubernetesObject, ReconcileResult, ResourceType } from '@hearth/common/kubernetes';
import type { Condition } from '@hearth/common/resources';

/** An object with a spec whose reconciler writes conditions into its status. */
export interface ReconciledObject extends KubernetesObject {
  status?: { observedGeneration?: number | undefined; conditions?: Condition[] | undefined } | undefined;
}

/** A state, in one CamelCase word for programs (`reason`) and a sentence for people (`message`). */
export type ConditionState = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

/** The status to be written: the shell adds observedGeneration, and the conditions' generations and times. */
export type DesiredStatus<T extends ReconciledObject> = Omit<
  NonNullable<T['status']>,
  'conditions' | 'observedGeneration'
> & { conditions: ConditionState[] };

/** How far a pass came. */
export interface Pass<Observed, Action> {
  observed: Observed;
  /** The actions that were applied, in order. */
  applied: readonly Action[];
  /** Why the pass ended before the last action; the action that failed. */
  failure?: { error: Error; action: Action };
  /** When to look again. */
  result: ReconcileResult;
}

/** Cleaning up has ended, or waits for something that a person can read. `reason` of Ready: absent: Deleting. */
export type CleanUpResult = 'done' | { waitingFor: string; reason?: string; requeueAfterMs?: number };

/**
 * The work for one thing: an object, a reflector's part of one, or a key alone. A pass is observe -> plan -> apply each
 * action in order; the shell around it is the same for all (`reconcileKey`, `reconcileObject`). Every pass finds
 * everything again, so it may end anywhere.
 */
export interface Reconciler<T, Observed, Action> {
  /** Reads everything that the pass needs, once. What is missing is an observation, not an error. */
  observe(target: T, signal: AbortSignal): Promise<Observed>;
  /** Pure. What to do, in order; nothing when all is as it should be. */
  plan(target: T, observed: Observed): Action[];
  /** Idempotent. A failure ends the pass; later actions wait for the next one. May ask for another pass after a while. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most actions ask for none
  apply(action: Action, target: T, signal: AbortSignal): Promise<ReconcileResult | void>;
  /** Pure. When to look again though nothing changed, ms; undefined: not at all. */
  requeueAfterMs?(target: T, observed: Observed): number | undefined;
}

/** The reconciler of a kind whose status has conditions: what a pass found and did is written there, and reported by events. */
export interface ObjectReconciler<T extends ReconciledObject, Observed, Action>
  extends Reconciler<T, Observed, Action> {
  readonly type: ResourceType<T>;
  /** Reasons of Ready=False that are steps on the way, and so no warnings to people. */
  readonly progressReasons?: readonly string[];
  /** Conditions beside Ready whose becoming False, and True again, is reported by an event as well. */
  readonly announcedConditions?: readonly string[];
  /**
   * Pure. Gives one condition `Ready` and others. When an action failed and this does not say Ready=False by itself,
   * the shell says it: the reason is the error's code.
   */
  status(object: T, pass: Pass<Observed, Action>): DesiredStatus<T>;
  /**
   * Removes what the object stands for that the garbage collector does not see. Absent: the object gets no finalizer.
   * Idempotent; called until it is done.
   */
  cleanUp?(object: T, signal: AbortSignal): Promise<CleanUpResult>;
}
