import type { Logger } from '../logger.ts';
import type { KubernetesClient } from './client.ts';
import type { KubernetesObject, ResourceType } from './object.ts';

export interface ReflectorOptions<T extends KubernetesObject, P> {
  api: Pick<KubernetesClient, 'list' | 'watch'>;
  type: ResourceType<T>;
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** What is kept of an object. Absent: all of it but metadata.managedFields. */
  project?: ((object: T) => P) | undefined;
  logger: Logger;
}

/** before undefined: new; after undefined: gone. Both: changed. */
export type ChangeListener<P> = (key: string, before: P | undefined, after: P | undefined) => void;

/**
 * A copy of all objects of one kind, kept up to date by list and watch until the signal aborts.
 * Keys are 'namespace/name' or 'name'. Values are shared: do not change them.
 */
export declare class Reflector<T extends KubernetesObject, P = T> {
  constructor(options: ReflectorOptions<T, P>);
  start(signal: AbortSignal): void;
  /** Resolves when the first list is complete; rejects with Cancelled when the signal aborts before. */
  synced(): Promise<void>;
  get hasSynced(): boolean;
  get(key: string): P | undefined;
  all(): P[];
  keys(): string[];
  get size(): number;
  /** Told of every change in order, also of deletions that a cut hid. Register before start; gives the way to stop. */
  onChange(listener: ChangeListener<P>): () => void;
}
