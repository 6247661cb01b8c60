/** Kubernetes for controllers: objects, API client, reflectors, work queues, leader election, events. */

export { type Clock, sleep, systemClock } from '../clock.ts';
export type * from './client.ts';
export {
  type ControllerOptions,
  type ReconcileOutcome,
  type ReconcileResult,
  reconcileChannel,
  runController,
} from './controller.ts';
export { coreEvent, type EventType } from './core_event.ts';
export { ElectionThread } from './election_thread.ts';
export { EventRecorder } from './event_recorder.ts';
export * from './kinds.ts';
export { KubernetesApi, type KubernetesApiOptions } from './kubernetes_api.ts';
export { LeaderElection, type LeaderElectionOptions } from './leader_election.ts';
export {
  apiVersionOf,
  type KubernetesObject,
  type ObjectMeta,
  type OwnerReference,
  objectKey,
  ownerReference,
  type Plain,
  type ResourceType,
  resourceType,
  splitKey,
} from './object.ts';
export { claimedDataset, type DatasetName, datasetOfVolume, type PodVolume, podVolumes } from './pod_volumes.ts';
export { type ChangeListener, Reflector, type ReflectorOptions } from './reflector.ts';
export { TokenBucket } from './token_bucket.ts';
export { hasNewSpec, ownKey, type Watched, watch } from './watch.ts';
export { WorkQueue } from './work_queue.ts';
