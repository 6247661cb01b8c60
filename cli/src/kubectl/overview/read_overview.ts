import { epochMs, HearthError } from '@hearth/common';
import { kinds } from '@hearth/common/kubernetes';
import { PermittedReads } from '../../explain/permitted_reads.ts';
import type { ClusterSession } from '../cluster_session.ts';
import { type Overview, overviewOf } from './overview.ts';

/**
 * Reads five lists in parallel. Sentences name objects that the user may not read. Throws `NotFound` when Hearth is not
 * installed.
 */
export async function readOverview(session: ClusterSession): Promise<Overview> {
  const { api } = await session.cluster();
  const { namespace } = session;
  const signal = session.signal();
  const reads = new PermittedReads();
  const list = async <T extends object>(type: Parameters<typeof api.list<T>>[0], fieldSelector?: string) => {
    const options = type.namespaced ? { namespace, fieldSelector } : {};
    const found = await reads.read(type.plural, () => api.list(type, options, signal));
    return found?.items ?? [];
  };
  try {
    const [clusters, nodes, datasets, preloads, pods] = await Promise.all([
      list(kinds.StorageCluster),
      list(kinds.NodeCache),
      list(kinds.Dataset),
      list(kinds.CachePreload),
      list(kinds.Pod, 'status.phase=Pending'),
    ]);
    const hint =
      namespace === undefined && reads.unseen.size > 0 ? ['name a namespace with -n to see its objects'] : [];
    const now = epochMs(session.terminal.clock);
    return overviewOf({ clusters, nodes, datasets, preloads, pods, unseen: [...reads.unseen, ...hint] }, now);
  } catch (thrown) {
    const error = HearthError.from(thrown);
    if (error.code !== 'NotFound') throw error;
    throw new HearthError('NotFound', 'this cluster does not know Hearth; install its chart (docs/install.md)', {
      cause: error,
    });
  }
}
