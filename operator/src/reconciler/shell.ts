import type { Logger } from '@hearth/common';
import type { EventRecorder, KubernetesClient, ReconcileResult, Reflector } from '@hearth/common/kubernetes';
import type { ReconciledObject, Reconciler } from './reconciler.ts';

export interface ShellOptions<T extends ReconciledObject, Observed, Action> {
  reconciler: Reconciler<T, Observed, Action>;
  api: Pick<KubernetesClient, 'apply' | 'patch'>;
  objects: Pick<Reflector<T>, 'get'>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}

/** The function that runController calls for each key of this kind. */
export declare function reconcileObject<T extends ReconciledObject, Observed, Action>(
  options: ShellOptions<T, Observed, Action>,
): (key: string, signal: AbortSignal) => Promise<ReconcileResult>;
