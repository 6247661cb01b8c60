import type { Logger } from '@hearth/common';
import type {
  EventRecorder,
  KubernetesClient,
  KubernetesObject,
  ReconcileResult,
  ResourceType,
} from '@hearth/common/kubernetes';
import type { Condition, Dataset, NodeCache, StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { NodeFacts, Placements, Source } from '../kubernetes/index.ts';

/** An object whose status has conditions. */
export interface ReconciledObject extends KubernetesObject {
  status?: { observedGeneration?: number | undefined; conditions?: Condition[] | undefined } | undefined;
}

/** `reason` is a CamelCase word for programs, `message` a sentence for people. */
export type ConditionState = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

/** The desired status. The shell adds observedGeneration, generations and times. */
export type DesiredStatus<T extends ReconciledObject> = Omit<
  NonNullable<T['status']>,
  'conditions' | 'observedGeneration'
> & { conditions: ConditionState[] };

export interface Pass<Observed, Action> {
  observed: Observed;
  applied: readonly Action[];
  /** The action that failed and ended the pass. */
  failure?: { error: Error; action: Action };
  result: ReconcileResult;
}

/** Done, or waiting for something that `waitingFor` explains. `reason` of Ready defaults to Deleting. */
export type CleanUpResult = 'done' | { waitingFor: string; reason?: string; requeueAfterMs?: number };

/**
 * Reconciles one target: an object, a projection, or a key alone. A pass observes, plans, and applies each action in
 * order, in a shell common to all (`reconcileKey`, `reconcileObject`). A pass may end anywhere, since the next one
 * observes everything again.
 */
export interface Reconciler<T, Observed, Action> {
  /** Reads everything once. A missing object is an observation, not an error. */
  observe(target: T, signal: AbortSignal): Promise<Observed>;
  /** Pure. Ordered actions; empty when the target is as desired. */
  plan(target: T, observed: Observed): Action[];
  /** Idempotent. A failure ends the pass; the next pass plans the remaining actions. May request another pass. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most actions ask for none
  apply(action: Action, target: T, signal: AbortSignal): Promise<ReconcileResult | void>;
  /** Pure. Milliseconds until another pass if nothing changes; undefined for none. */
  requeueAfterMs?(target: T, observed: Observed): number | undefined;
}

/** A reconciler whose results are written into conditions and events. */
export interface ObjectReconciler<T extends ReconciledObject, Observed, Action>
  extends Reconciler<T, Observed, Action> {
  readonly type: ResourceType<T>;
  /** Reasons of Ready=False that are normal progress, and cause no warning. */
  readonly progressReasons?: readonly string[];
  /** Further conditions whose transitions cause events. */
  readonly announcedConditions?: readonly string[];
  /** Pure. Includes the condition Ready. After a failed action the shell sets Ready=False with the error's code. */
  status(object: T, pass: Pass<Observed, Action>): DesiredStatus<T>;
  /** Removes everything that the garbage collector does not see. Idempotent. Absent: no finalizer. */
  cleanUp?(object: T, signal: AbortSignal): Promise<CleanUpResult>;
}

/** Shared inputs of the leader's controllers. The reflectors must run already. */
export interface ControllerParts {
  api: KubernetesClient;
  agents: Agents;
  clusters: Source<StorageCluster>;
  datasets: Source<Dataset>;
  caches: Source<NodeCache>;
  nodes: Source<NodeFacts>;
  placements: Placements;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}
