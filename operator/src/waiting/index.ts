/** Pods that wait for a volume of a Dataset that is not ready: their events say why. */
export { type AwaitingPod, awaitingPod, runWaitingController } from './waiting_pods.ts';
