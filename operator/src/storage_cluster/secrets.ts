import { type Applied, kinds, ownerReference, type Secret } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { PlannedSecret } from '../certificates/index.ts';
import { secretData } from '../kubernetes/index.ts';
import type { Environment } from './environment.ts';
import { labelsOf, secretName } from './names.ts';

/**
 * A Secret as it is to be applied. With the version of the one that was read, so that certificates are never made
 * twice out of an old copy: the API server answers Conflict then.
 */
export function secretObject(
  cluster: StorageCluster,
  { namespace }: Environment,
  planned: PlannedSecret,
  resourceVersion: string | undefined,
): Applied<Secret> {
  const { name } = cluster.metadata;
  return {
    metadata: {
      name: secretName(name, planned.role),
      namespace,
      labels: labelsOf(name, 'certificates'),
      ownerReferences: [ownerReference(kinds.StorageCluster, cluster)],
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
    type: planned.type,
    data: secretData(planned.texts),
  };
}
