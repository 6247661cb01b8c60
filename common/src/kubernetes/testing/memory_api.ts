import { HearthError } from '../../error.ts';
import type { Applied, DeleteOptions, ObjectList, PatchOptions } from '../client.ts';
import type { KubernetesObject, ResourceType } from '../object.ts';

/**
 * An API in memory with resource versions, without watches or admission. While `fail` is set, every call throws it
 * after `delay`.
 */
export class MemoryApi {
  readonly objects = new Map<string, KubernetesObject>();
  readonly calls: string[] = [];
  fail: HearthError | undefined;
  delay: () => Promise<void> = async () => undefined;
  #version = 0;

  async get<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    await this.#begin('get', type, name, signal);
    return copy(this.objects.get(place(type, name, namespace)) as T | undefined);
  }

  async list<T extends KubernetesObject>(type: ResourceType<T>): Promise<ObjectList<T>> {
    await this.#begin('list', type, '', undefined);
    const items = [...this.objects.values()].filter(({ kind }) => kind === type.kind) as T[];
    return { items: items.map((item) => copy(item) as T), resourceVersion: String(this.#version) };
  }

  async create<T extends KubernetesObject>(type: ResourceType<T>, object: T, signal?: AbortSignal): Promise<T> {
    const { name = '', namespace } = object.metadata ?? {};
    await this.#begin('create', type, name, signal);
    const key = place(type, name, namespace);
    if (this.objects.has(key)) throw new HearthError('AlreadyExists', `${type.kind} ${name} already exists`);
    return this.#store(type, key, object);
  }

  async replace<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: T,
    _subresource?: string,
    signal?: AbortSignal,
  ): Promise<T> {
    const { name = '', namespace } = object.metadata ?? {};
    await this.#begin('replace', type, name, signal);
    const key = place(type, name, namespace);
    this.#check(type, key, object.metadata?.resourceVersion);
    return this.#store(type, key, object);
  }

  /** Merges two levels, enough for whole metadata, spec and status fields. */
  async patch<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace: string | undefined,
    patch: unknown,
    { signal }: PatchOptions,
  ): Promise<T> {
    await this.#begin('patch', type, name, signal);
    return this.#merge(type, place(type, name, namespace), patch as Record<string, unknown>);
  }

  async apply<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: Applied<T>,
    options: { subresource?: string | undefined; signal?: AbortSignal | undefined } = {},
  ): Promise<T> {
    const { name = '', namespace } = object.metadata ?? {};
    await this.#begin(
      options.subresource === undefined ? 'apply' : `apply ${options.subresource}`,
      type,
      name,
      options.signal,
    );
    const key = place(type, name, namespace);
    if (this.objects.has(key) || options.subresource !== undefined) {
      return this.#merge(type, key, object as Record<string, unknown>);
    }
    return this.#store(type, key, object as T);
  }

  async delete<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    namespace?: string,
    options: DeleteOptions = {},
  ): Promise<boolean> {
    await this.#begin('delete', type, name, options.signal);
    return this.objects.delete(place(type, name, namespace));
  }

  async #begin<T extends KubernetesObject>(
    verb: string,
    type: ResourceType<T>,
    name: string,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    this.calls.push(`${verb} ${type.kind} ${name}`);
    const gone = Promise.withResolvers<never>();
    const abort = () => gone.reject(new HearthError('Cancelled', 'gave up'));
    if (signal?.aborted) abort();
    signal?.addEventListener('abort', abort);
    try {
      await Promise.race([this.delay(), gone.promise]);
    } finally {
      signal?.removeEventListener('abort', abort);
    }
    if (this.fail !== undefined) throw this.fail;
  }

  #check<T extends KubernetesObject>(type: ResourceType<T>, key: string, version: string | undefined): void {
    const known = this.objects.get(key);
    if (known === undefined) throw new HearthError('NotFound', `There is no ${type.kind} ${key}`);
    if (version !== undefined && version !== known.metadata?.resourceVersion) {
      throw new HearthError('Conflict', `${type.kind} ${key} has been changed`);
    }
  }

  #merge<T extends KubernetesObject>(type: ResourceType<T>, key: string, patch: Record<string, unknown>): T {
    this.#check(type, key, (patch.metadata as { resourceVersion?: string } | undefined)?.resourceVersion);
    const merged = { ...this.objects.get(key) } as Record<string, unknown>;
    for (const [name, value] of Object.entries(patch)) {
      const nested = typeof value === 'object' && value !== null && !Array.isArray(value);
      merged[name] = nested ? { ...(merged[name] as object), ...value } : value;
    }
    return this.#store(type, key, merged as T);
  }

  #store<T extends KubernetesObject>(type: ResourceType<T>, key: string, object: T): T {
    this.#version += 1;
    const stored = copy(object) as T;
    const uid = this.objects.get(key)?.metadata?.uid ?? `uid-${this.#version}`;
    stored.kind = type.kind;
    stored.metadata = { ...stored.metadata, uid, resourceVersion: String(this.#version) };
    this.objects.set(key, stored);
    return copy(stored) as T;
  }
}

function place<T extends KubernetesObject>(type: ResourceType<T>, name: string, namespace: string | undefined): string {
  return [type.plural, namespace, name].filter(Boolean).join('/');
}

function copy<T>(object: T): T {
  return object === undefined ? object : (JSON.parse(JSON.stringify(object)) as T);
}
