import type { Logger } from '../logger.ts';
import type { KubernetesClient } from './client.ts';
import type { KubernetesObject, ResourceType } from './object.ts';

export interface EventRecorderOptions {
  api: Pick<KubernetesClient, 'create' | 'patch'>;
  /** Who tells, as in `kubectl describe`: hearth-operator. */
  component: string;
  /** The replica: the pod's name. */
  instance: string;
  logger: Logger;
}

/** An object that events are about. Kind and version may be absent in it when `type` is given. */
export type Regarding = KubernetesObject;

/** Tells people what happens to their objects. Never throws and never waits. */
export declare class EventRecorder {
  constructor(options: EventRecorderOptions);
  /** `reason` is one CamelCase word, `message` a sentence without secrets. */
  event(object: Regarding, type: 'Normal' | 'Warning', reason: string, message: string): void;
  /** The same for an object whose kind is not written in it. */
  eventFor<T extends KubernetesObject>(
    kind: ResourceType<T>,
    object: T,
    type: 'Normal' | 'Warning',
    reason: string,
    message: string,
  ): void;
  /** Resolves when everything said so far has been sent or given up, at most after `deadlineMs` (2,000). */
  flush(deadlineMs?: number): Promise<void>;
}
