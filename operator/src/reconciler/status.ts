import { isDeepStrictEqual } from 'node:util';
import { type Applied, type KubernetesClient, objectKey, type ResourceType, splitKey } from '@hearth/common/kubernetes';
import type { Condition } from '@hearth/common/resources';
import type { ReconciledObject } from './reconciler.ts';

type Status = NonNullable<ReconciledObject['status']>;

/**
 * Writes the status if it differs from that of the object. The resource version goes with it: an object that was read
 * before our own last write is a Conflict, not a second write. false: nothing was to be written.
 */
export async function writeStatus<T extends ReconciledObject>(
  api: Pick<KubernetesClient, 'apply'>,
  type: ResourceType<T>,
  object: T,
  status: Status,
  signal: AbortSignal,
): Promise<boolean> {
  if (isDeepStrictEqual(comparable(status), comparable(object.status ?? {}))) return false;
  const { uid, resourceVersion } = object.metadata ?? {};
  const metadata = { ...splitKey(objectKey(object)), uid, resourceVersion };
  await api.apply(type, { metadata, status } as unknown as Applied<T>, { subresource: 'status', signal });
  return true;
}

/** As JSON carries it, conditions in one order: the API server merges them by type. */
function comparable(status: Status): unknown {
  const plain = JSON.parse(JSON.stringify(status)) as { conditions?: Condition[] };
  plain.conditions?.sort((a, b) => (a.type < b.type ? -1 : 1));
  return plain;
}
