import { HearthError } from '@hearth/common';
import type { KubernetesClient, KubernetesObject, ResourceType } from '@hearth/common/kubernetes';

export type ListScope = { namespace?: string; labelSelector?: string; fieldSelector?: string };

/** Yields pages of objects; none when the kind is not installed. */
export async function* pages<T extends KubernetesObject>(
  api: Pick<KubernetesClient, 'list'>,
  type: ResourceType<T>,
  scope: ListScope,
  signal: AbortSignal,
): AsyncGenerator<T[]> {
  let next: string | undefined;
  do {
    const wanted = { ...scope, limit: 500, ...(next === undefined ? {} : { continue: next }) };
    try {
      const page = await api.list(type, wanted, signal);
      yield page.items;
      next = page.continue;
    } catch (thrown) {
      if (HearthError.from(thrown).code !== 'NotFound') throw thrown;
      return;
    }
  } while (next !== undefined);
}

export async function all<T extends KubernetesObject>(
  api: Pick<KubernetesClient, 'list'>,
  type: ResourceType<T>,
  scope: ListScope,
  signal: AbortSignal,
): Promise<T[]> {
  const objects: T[] = [];
  for await (const page of pages(api, type, scope, signal)) objects.push(...page);
  return objects;
}

/** Deletes all objects that are not terminating. Returns all found objects, as `Kind name`. */
export async function deleteAll<T extends KubernetesObject>(
  api: Pick<KubernetesClient, 'list' | 'delete'>,
  type: ResourceType<T>,
  scope: ListScope,
  signal: AbortSignal,
): Promise<string[]> {
  const objects = await all(api, type, scope, signal);
  for (const { metadata } of objects) {
    if (metadata?.deletionTimestamp !== undefined) continue;
    await api.delete(type, metadata?.name ?? '', scope.namespace, { signal });
  }
  return objects.map(({ metadata }) => `${type.kind} ${metadata?.name}`);
}
