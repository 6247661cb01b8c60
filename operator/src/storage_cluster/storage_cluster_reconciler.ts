import { type EventRecorder, type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { CleanUpResult, ObjectReconciler, Pass } from '../reconciler/index.ts';
import { announcedConditions } from './advice.ts';
import { cleanUp, keptByPods } from './clean_up.ts';
import { isReadByPods } from './configurations.ts';
import type { Observation } from './observation.ts';
import { Observer, type ObserverOptions } from './observer.ts';
import { type Action, plan } from './plan.ts';
import { startingReason } from './pod_state.ts';
import { secretObject } from './secrets.ts';
import { clusterStatus, progressReasons } from './status.ts';

export interface StorageClusterReconcilerOptions extends ObserverOptions {
  api: Pick<KubernetesClient, 'get' | 'list' | 'apply' | 'delete'>;
  events: Pick<EventRecorder, 'eventFor'>;
  /** A deletion ends after this time though something is left. */
  deletionTimeoutMs: number;
}

/** References to objects of users are not watched. */
const lookAgainMs = 5 * 60_000;
const awaitedMs = 10_000;
const longestRestMs = 60 * 60_000;

/** Makes of a StorageCluster what runs on its nodes, and reports in its status how each of them is. */
export class StorageClusterReconciler implements ObjectReconciler<StorageCluster, Observation, Action> {
  readonly type = kinds.StorageCluster;
  readonly progressReasons = progressReasons;
  readonly announcedConditions = announcedConditions;
  readonly plan = (_cluster: StorageCluster, observation: Observation) => plan(observation);
  readonly status = (cluster: StorageCluster, pass: Pass<Observation, Action>) => clusterStatus(cluster, pass.observed);
  readonly #options: StorageClusterReconcilerOptions;
  readonly #observer: Observer;
  /** Of StorageClusters that are being deleted: when their removal began. A new leader begins to count again. */
  readonly #removals = new Map<string, number>();

  constructor(options: StorageClusterReconcilerOptions) {
    this.#options = options;
    this.#observer = new Observer(options);
  }

  async observe(cluster: StorageCluster, signal: AbortSignal): Promise<Observation> {
    return await this.#observer.observe(cluster, signal);
  }

  async apply(action: Action, cluster: StorageCluster, signal: AbortSignal): Promise<void> {
    const { api, agents, environment, events } = this.#options;
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
        // The pod reports its end, and then this is planned again.
        if (configures && (await isReadByPods(api, name, action.name, environment.namespace, signal))) return;
        await api.delete(action.type, action.name, environment.namespace, { preconditions, signal });
        return;
      }
      case 'rebuildStore': {
        const { name = '', uid } = action.set.metadata ?? {};
        const preconditions = uid === undefined ? {} : { uid };
        // Pods first: old members must not meet new ones.
        const options = { propagation: 'Foreground', preconditions, signal } as const;
        await api.delete(kinds.StatefulSet, name, environment.namespace, options);
        const message =
          'A member of the store has lost its data with its node, so all members begin empty, and agents and the operator write again what was in it. Give the store volumes (storage.size) to avoid this';
        events.eventFor(kinds.StorageCluster, cluster, 'Warning', 'StoreRebuilt', message);
        return;
      }
      case 'connect':
        agents.configure(cluster.metadata.name, action.identity, action.endpoints);
        return;
    }
  }

  requeueAfterMs(cluster: StorageCluster, observation: Observation): number {
    const { certificates, now, missing, agents, status, nodes, keptBy } = observation;
    const { origins, store } = cluster.spec;
    const referring = origins.certificateAuthorities !== undefined || store.secretRef !== undefined;
    // Why no agent answers is heard of without a change that would bring us here.
    const silent = agents.endpoints.length > 0 && status?.connected !== true;
    // So is that a pod has not started for too long.
    const starting = nodes.some(({ reason }) => reason === startingReason);
    if (missing.length > 0 || silent || starting || keptBy.length > 0) return awaitedMs;
    const renewal = certificates.renewAt.getTime() - now.getTime();
    return Math.max(1_000, Math.min(renewal, referring ? lookAgainMs : longestRestMs));
  }

  async cleanUp(cluster: StorageCluster, signal: AbortSignal): Promise<CleanUpResult> {
    const { api, events, environment, agents, deletionTimeoutMs: timeoutMs, now } = this.#options;
    const { namespace } = environment;
    const { name, uid = '' } = cluster.metadata;
    const began = this.#removals;
    // Once agents are going, pods cannot keep them.
    const kept = began.has(uid) ? undefined : await keptByPods({ api, namespace }, cluster, signal);
    if (kept !== undefined) return kept;
    await agents.forget(name);
    const options = { api, events, namespace, now: () => now().getTime(), timeoutMs, began };
    const result = await cleanUp(options, cluster, signal);
    if (result === 'done') began.delete(uid);
    return result;
  }
}
