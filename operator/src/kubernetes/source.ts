import type { KubernetesObject, Reflector } from '@hearth/common/kubernetes';

/** The part of a reflector that a controller uses: what the watch has shown of one kind, by key. */
export type Source<P> = Pick<Reflector<KubernetesObject, P>, 'get' | 'all' | 'keys' | 'onChange' | 'synced'>;
