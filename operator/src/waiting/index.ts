/** Pods that wait for a volume of a Dataset that is not ready: their events say why. */
export { type AwaitingPod, awaitingPod } from './awaiting_pod.ts';
export { runWaitingController } from './waiting_controller.ts';
