import {
  type Applied,
  type EventRecorder,
  type KubernetesClient,
  kinds,
  ownerReference,
  type Secret,
} from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { PlannedSecret } from '../certificates/index.ts';
import { secretData } from '../kubernetes/index.ts';
import type { CleanUpResult, ObjectReconciler, Pass } from '../reconciler/index.ts';
import { announcedConditions } from './advice.ts';
import { cleanUp, keptByPods } from './clean_up.ts';
import { isReadByPods } from './configurations.ts';
import type { Environment } from './environment.ts';
import { labelsOf, secretName } from './names.ts';
import type { Observation } from './observation.ts';
import { Observer, type ObserverOptions } from './observer.ts';
import { type Action, plan } from './plan.ts';
import { startingReason } from './pod_state.ts';
import { clusterStatus, progressReasons } from './status.ts';

export interface StorageClusterReconcilerOptions extends ObserverOptions {
  api: Pick<KubernetesClient, 'get' | 'list' | 'apply' | 'delete'>;
  events: Pick<EventRecorder, 'eventFor'>;
  /** A deletion ends after this time, complete or not, ms. */
  deletionTimeoutMs: number;
}

/** The pause between two reads of users' objects, which are not watched, ms. */
const recheckMs = 5 * 60_000;
const pendingMs = 10_000;
const maxIdleMs = 60 * 60_000;

/** Creates the objects of a StorageCluster and reports the state of its nodes. */
export class StorageClusterReconciler implements ObjectReconciler<StorageCluster, Observation, Action> {
  readonly type = kinds.StorageCluster;
  readonly progressReasons = progressReasons;
  readonly announcedConditions = announcedConditions;
  readonly plan = (_cluster: StorageCluster, observation: Observation) => plan(observation);
  readonly status = (cluster: StorageCluster, pass: Pass<Observation, Action>) => clusterStatus(cluster, pass.observed);
  readonly #options: StorageClusterReconcilerOptions;
  readonly #observer: Observer;
  /** Start of each removal, by uid. A new leader starts again. */
  readonly #removals = new Map<string, number>();

  constructor(options: StorageClusterReconcilerOptions) {
    this.#options = options;
    this.#observer = new Observer(options);
  }

  async observe(cluster: StorageCluster, signal: AbortSignal): Promise<Observation> {
    return await this.#observer.observe(cluster, signal);
  }

  async apply(action: Action, cluster: StorageCluster, signal: AbortSignal): Promise<void> {
    const { api, environment, events } = this.#options;
    switch (action.kind) {
      case 'secret': {
        const object = secretObject(cluster, environment, action.secret, action.resourceVersion);
        await api.apply(kinds.Secret, object, { signal });
        return;
      }
      case 'apply':
        await api.apply(action.desired.type, action.desired.object, { signal });
        return;
      case 'delete': {
        const preconditions = action.uid === undefined ? {} : { uid: action.uid };
        const { name } = cluster.metadata;
        const configures = action.type.kind === kinds.ConfigMap.kind;
        // The end of the pod starts another pass.
        if (configures && (await isReadByPods(api, name, action.name, environment.namespace, signal))) return;
        await api.delete(action.type, action.name, environment.namespace, { preconditions, signal });
        return;
      }
      case 'rebuildStore': {
        const { name = '', uid } = action.set.metadata ?? {};
        const preconditions = uid === undefined ? {} : { uid };
        // Deletes pods first, so that old members do not meet new ones.
        const options = { propagation: 'Foreground', preconditions, signal } as const;
        await api.delete(kinds.StatefulSet, name, environment.namespace, options);
        const message =
          'A member of the store has lost its data with its node, so all members begin empty, and agents and the operator write again what was in it. Give the store volumes (storage.size) to avoid this';
        events.eventFor(kinds.StorageCluster, cluster, 'Warning', 'StoreRebuilt', message);
        return;
      }
    }
  }

  requeueAfterMs(cluster: StorageCluster, observation: Observation): number {
    const { certificates, now, missing, agents, status, nodes, keptBy, refused } = observation;
    const { origins, store } = cluster.spec;
    const referring = origins.certificateAuthorities !== undefined || store.secretRef !== undefined;
    // No change announces why agents do not answer, or that a pod is overdue.
    const silent = agents.running > 0 && status?.connected !== true;
    const starting = nodes.some(({ reason }) => reason === startingReason);
    const waiting = missing.length > 0 || keptBy.length > 0 || refused !== undefined;
    if (waiting || silent || starting) return pendingMs;
    const renewal = certificates.renewAt.getTime() - now.getTime();
    return Math.max(1_000, Math.min(renewal, referring ? recheckMs : maxIdleMs));
  }

  async cleanUp(cluster: StorageCluster, signal: AbortSignal): Promise<CleanUpResult> {
    const { api, events, environment, pods, mounting, deletionTimeoutMs: timeoutMs, now } = this.#options;
    const { namespace } = environment;
    const { uid = '' } = cluster.metadata;
    const began = this.#removals;
    // Pods cannot stop a removal that has begun.
    const kept = began.has(uid) ? undefined : keptByPods(pods, mounting, cluster);
    if (kept !== undefined) return kept;
    const options = { api, events, namespace, now: () => now().getTime(), timeoutMs, began };
    const result = await cleanUp(options, cluster, signal);
    if (result === 'done') began.delete(uid);
    return result;
  }
}

/** The resource version makes the API server answer Conflict to certificates issued from an old copy. */
function secretObject(
  cluster: StorageCluster,
  { namespace }: Environment,
  planned: PlannedSecret,
  resourceVersion: string | undefined,
): Applied<Secret> {
  const { name } = cluster.metadata;
  return {
    metadata: {
      name: secretName(name, planned.role),
      namespace,
      labels: labelsOf(name, 'certificates'),
      ownerReferences: [ownerReference(kinds.StorageCluster, cluster)],
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
    type: planned.type,
    data: secretData(planned.texts),
  };
}
