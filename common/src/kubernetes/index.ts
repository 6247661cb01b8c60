/** Kubernetes for controllers: objects, the API, reflectors, work queues, leader election, events. */

export { type Clock, sleep, systemClock } from '../clock.ts';
export { ApiFailure, apiFailure, isExpired } from './api_failure.ts';
export type * from './client.ts';
export { type ControllerOptions, type ReconcileOutcome, type ReconcileResult, runController } from './controller.ts';
export { coreEvent, type EventType, type Occurrence } from './core_event.ts';
export { EventRecorder, type EventRecorderOptions } from './event_recorder.ts';
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
export { type ChangeListener, Reflector, type ReflectorOptions } from './reflector.ts';
export { controllerKey, hasNewSpec, type KeysOf, ownKey, type Watch, type Watched, watch } from './watch.ts';
export { WorkQueue, type WorkQueueOptions } from './work_queue.ts';
