import { type StorageCluster, type StorageClusterSpec, storageClusters } from '@hearth/common/resources';
import type { z } from 'zod';
import type { NodeFacts } from '../../kubernetes/index.ts';
import { type Environment, plainPods } from '../environment.ts';

export const environment: Environment = {
  namespace: 'hearth-system',
  image: 'registry/hearth:1',
  etcdImage: 'registry/etcd:3',
  imagePullPolicy: 'IfNotPresent',
  imagePullSecrets: [],
  pods: plainPods,
};

const one = { nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth' }] }] };

/** A StorageCluster as the API server would give it, with defaults filled in. */
export function sampleCluster(spec: object = {}, metadata: Partial<StorageCluster['metadata']> = {}): StorageCluster {
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'StorageCluster',
    metadata: { name: 'models', uid: 'uid-1', generation: 1, creationTimestamp: '2026-01-01T00:00:00Z', ...metadata },
    spec: (storageClusters.spec as z.ZodType<StorageClusterSpec>).parse({ ...one, ...spec }),
  };
}

export function sampleNode(name: string, fields: Partial<NodeFacts> = {}): NodeFacts {
  return {
    name,
    uid: `uid-${name}`,
    createdAt: '2026-01-01T00:00:00Z',
    ready: true,
    taints: [],
    tainted: false,
    leaving: false,
    zone: '',
    rack: '',
    ...fields,
    labels: { 'kubernetes.io/os': 'linux', ...fields.labels },
  };
}
