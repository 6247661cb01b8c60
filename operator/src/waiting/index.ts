/** Events for pods that wait for Datasets which are not ready. */
export { type AwaitingPod, awaitingPod, runWaitingController } from './waiting_pods.ts';
