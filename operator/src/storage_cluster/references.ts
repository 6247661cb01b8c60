import { type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';

/** Objects of users that the spec refers to. */
export interface References {
  /** PEM; agents read these authorities at their start. */
  originAuthorities: string | undefined;
  /** Sentences about missing objects. */
  missing: string[];
}

const storeKeys = ['tls.crt', 'tls.key', 'ca.crt'];

/** Pods wait silently for missing volumes, so the status reports these objects. */
export async function readReferences(
  api: Pick<KubernetesClient, 'get'>,
  { spec }: StorageCluster,
  namespace: string,
  signal: AbortSignal,
): Promise<References> {
  const missing: string[] = [];
  let originAuthorities: string | undefined;
  const { certificateAuthorities } = spec.origins;
  if (certificateAuthorities !== undefined) {
    const { name, key } = certificateAuthorities;
    const found = await api.get(kinds.ConfigMap, name, namespace, signal);
    originAuthorities = found?.data?.[key];
    if (found === undefined) missing.push(`Agents wait for ConfigMap ${name} in namespace ${namespace}; make it`);
    else if (originAuthorities === undefined) {
      missing.push(`Agents wait for the key ${key} of ConfigMap ${name} in namespace ${namespace}; add it`);
    }
  }
  if (spec.store.secretRef !== undefined) {
    const { name } = spec.store.secretRef;
    const found = await api.get(kinds.Secret, name, namespace, signal);
    const absent = storeKeys.filter((key) => found?.data?.[key] === undefined);
    if (found === undefined) missing.push(`Agents wait for Secret ${name} in namespace ${namespace}; make it`);
    else if (absent.length > 0) {
      missing.push(`Agents wait for ${absent.join(', ')} in Secret ${name} in namespace ${namespace}; add them`);
    }
  }
  return { originAuthorities, missing };
}
