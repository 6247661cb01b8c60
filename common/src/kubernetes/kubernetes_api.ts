import type { KubeConfig } from '@kubernetes/client-node';
import { fieldManager as ourFieldManager } from '../names.ts';
import { apiFailure } from './api_failure.ts';
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
import { type Credentials, defaultCredentials, KubeConfigCredentials } from './credentials.ts';
import { type ApiRequest, HttpTransport } from './http_transport.ts';
import { kinds } from './kinds.ts';
import { apiVersionOf, type KubernetesObject, type ResourceType } from './object.ts';
import { describeResource, type ResourcePlace, resourcePath } from './resource_path.ts';
import { watchEvents } from './watch_stream.ts';

export interface KubernetesApiOptions {
  /** Deadline of a request, ms. Default 30,000. A page of a list may take twice as long. */
  deadlineMs?: number;
  /** User agent in the API server's audit log. Default hearth. */
  userAgent?: string;
}

/** Time that a watch may outlive its timeout, ms, for clock differences and bytes in flight. */
const watchGraceMs = 30_000;
/** Bookmarks arrive about once a minute; a connection that misses three is dead. */
const watchIdleMs = 180_000;

/** The API of a real cluster over HTTP; see KubernetesClient for semantics. */
export class KubernetesApi implements KubernetesClient {
  readonly #transport: HttpTransport;
  readonly #deadlineMs: number;

  constructor(credentials: Credentials, options: KubernetesApiOptions = {}) {
    this.#transport = new HttpTransport(credentials, options.userAgent ?? 'hearth');
    this.#deadlineMs = options.deadlineMs ?? 30_000;
  }

  /** Uses KUBECONFIG if set, else the pod's service account, else ~/.kube/config. */
  static fromDefault(options?: KubernetesApiOptions): KubernetesApi {
    return new KubernetesApi(defaultCredentials(), options);
  }

  static fromKubeConfig(config: KubeConfig, options?: KubernetesApiOptions): KubernetesApi {
    return new KubernetesApi(new KubeConfigCredentials(async () => config), options);
  }

  async get<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    const place = { namespace, name };
    const what = `get ${describeResource(type, place)}`;
    try {
      const request = { what, method: 'GET', path: resourcePath(type, place), signal } as const;
      return named(type, (await this.#request(type, request)) as T);
    } catch (thrown) {
      if (isMissing(thrown, name)) return undefined;
      throw thrown;
    }
  }

  async list<T extends KubernetesObject>(
    type: ResourceType<T>,
    options: ListOptions = {},
    signal?: AbortSignal,
  ): Promise<ObjectList<T>> {
    const { namespace, ...query } = options;
    const what = `list ${describeResource(type, { namespace })}`;
    const path = resourcePath(type, { namespace }, query);
    const page = (await this.#request(type, { what, method: 'GET', path, signal }, 2 * this.#deadlineMs)) as {
      items?: T[] | null;
      metadata?: { resourceVersion?: string; continue?: string };
    };
    const next = page.metadata?.continue;
    return {
      items: (page.items ?? []).map((item) => named(type, item)),
      resourceVersion: page.metadata?.resourceVersion ?? '',
      ...(next ? { continue: next } : {}),
    };
  }

  async create<T extends KubernetesObject>(type: ResourceType<T>, object: T, signal?: AbortSignal): Promise<T> {
    const { namespace, name } = object.metadata ?? {};
    const body = named(type, { ...object });
    const what = `create ${describeResource(type, { namespace, name })}`;
    // A create goes to the collection, whose path needs the namespace but not the name.
    resourcePath(type, { namespace, name: name ?? 'generated' });
    const path = resourcePath(type, { namespace }, { fieldManager: ourFieldManager });
    return (await this.#request(type, { what, method: 'POST', path, body, signal })) as T;
  }

  async replace<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: T,
    subresource?: string,
    signal?: AbortSignal,
  ): Promise<T> {
    const place = { ...placeOf(object), subresource };
    const what = `replace ${describeResource(type, place)}`;
    const path = resourcePath(type, place, { fieldManager: ourFieldManager });
    const body = named(type, { ...object });
    return (await this.#request(type, { what, method: 'PUT', path, body, signal })) as T;
  }

  async delete<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    options: DeleteOptions = {},
  ): Promise<boolean> {
    const place = { namespace, name };
    const { propagation = 'Background', preconditions, gracePeriodSeconds, signal } = options;
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy: propagation,
      ...(preconditions === undefined ? {} : { preconditions }),
      ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
    };
    const what = `delete ${describeResource(type, place)}`;
    const path = resourcePath(type, place);
    try {
      await this.#request(type, { what, method: 'DELETE', path, body, signal });
      return true;
    } catch (thrown) {
      if (isMissing(thrown, name)) return false;
      throw thrown;
    }
  }

  async apply<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: Applied<T>,
    options: ApplyOptions = {},
  ): Promise<T> {
    const { fieldManager = ourFieldManager, force = true, subresource, signal } = options;
    const place = { ...placeOf(object), subresource };
    const what = `apply ${describeResource(type, place)}`;
    const path = resourcePath(type, place, { fieldManager, force });
    const body = { ...object, apiVersion: apiVersionOf(type), kind: type.kind };
    const contentType = 'application/apply-patch+yaml';
    const request = { what, method: 'PATCH', path, body, contentType, signal } as const;
    return (await this.#request(type, request)) as T;
  }

  async patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace: string | undefined,
    patch: unknown,
    { kind, subresource, signal }: PatchOptions,
  ): Promise<T> {
    const place = { namespace, name, subresource };
    const what = `patch ${describeResource(type, place)}`;
    const path = resourcePath(type, place, { fieldManager: ourFieldManager });
    const contentType = kind === 'merge' ? 'application/merge-patch+json' : 'application/json-patch+json';
    const request = { what, method: 'PATCH', path, body: patch, contentType, signal } as const;
    return (await this.#request(type, request)) as T;
  }

  async *watch<T extends KubernetesObject>(
    type: ResourceType<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>, void, void> {
    const { namespace, idleMs = watchIdleMs, ...query } = options;
    const what = `watch ${describeResource(type, { namespace })}`;
    const path = resourcePath(type, { namespace }, { ...query, watch: true, allowWatchBookmarks: true });
    const response = await this.#transport.stream({ what, method: 'GET', path, signal }, this.#deadlineMs);
    const lifeMs = options.timeoutSeconds * 1000 + watchGraceMs;
    for await (const event of watchEvents<T>(response, { what, idleMs, lifeMs, signal })) {
      if (event.type !== 'BOOKMARK') named(type, event.object);
      yield event;
    }
  }

  /**
   * Returns the text at a path of the server, such as logs or metrics through a pod's proxy. `what` names the request
   * in errors: `get logs of x`.
   */
  text(what: string, path: string, signal?: AbortSignal): Promise<string> {
    return this.#transport.text({ what, method: 'GET', path, accept: '*/*', signal }, this.#deadlineMs);
  }

  date(): Date {
    return this.#transport.clock.date();
  }

  /** Closes idle connections. */
  close(): void {
    this.#transport.close();
  }

  #request<T extends KubernetesObject>(
    type: ResourceType<T>,
    request: ApiRequest,
    deadlineMs: number = this.#deadlineMs,
  ): Promise<unknown> {
    return this.#transport.request({ ...request, urgent: type.group === kinds.Lease.group }, deadlineMs);
  }
}

function placeOf(object: KubernetesObject): ResourcePlace {
  return { namespace: object.metadata?.namespace, name: object.metadata?.name ?? '' };
}

/** Adds the kind and version that lists and some responses omit. */
function named<T extends KubernetesObject>(type: ResourceType<T>, object: T): T {
  if (object.kind === type.kind && object.apiVersion !== undefined) return object;
  return Object.assign(object, { apiVersion: apiVersionOf(type), kind: type.kind });
}

/** True when the object is missing. If the kind is missing, the server names no object. */
function isMissing(thrown: unknown, name: string): boolean {
  const failure = apiFailure(thrown);
  return failure?.status === 404 && failure.object === name;
}
