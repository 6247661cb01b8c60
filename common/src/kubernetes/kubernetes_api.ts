import type { KubeConfig } from '@kubernetes/client-node';
import type {
  Applied,
  ApplyOptions,
  DeleteOptions,
  KubernetesClient,
  ListOptions,
  ObjectList,
  PatchOptions,
  WatchEvent,
  WatchOptions,
} from './client.ts';
import type { KubernetesObject, ResourceType } from './object.ts';

/** The API of a real cluster over HTTP. */
export declare class KubernetesApi implements KubernetesClient {
  /** In a pod its service account; else what KUBECONFIG or ~/.kube/config say. */
  static fromDefault(): KubernetesApi;
  static fromKubeConfig(config: KubeConfig): KubernetesApi;
  get<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    signal?: AbortSignal,
  ): Promise<T | undefined>;
  list<T extends KubernetesObject>(
    type: ResourceType<T>,
    options?: ListOptions,
    signal?: AbortSignal,
  ): Promise<ObjectList<T>>;
  create<T extends KubernetesObject>(type: ResourceType<T>, object: T, signal?: AbortSignal): Promise<T>;
  replace<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: T,
    subresource?: string,
    signal?: AbortSignal,
  ): Promise<T>;
  delete<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    options?: DeleteOptions,
  ): Promise<boolean>;
  apply<T extends KubernetesObject>(type: ResourceType<T>, object: Applied<T>, options?: ApplyOptions): Promise<T>;
  patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace: string | undefined,
    patch: unknown,
    options: PatchOptions,
  ): Promise<T>;
  watch<T extends KubernetesObject>(
    type: ResourceType<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent<T>>;
  /** Closes idle connections. Calls after it fail. */
  close(): void;
}
