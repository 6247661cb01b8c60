import type * as models from '@kubernetes/client-node';
import { apiGroup, apiVersion } from '../names.ts';
import type { CachePreload, Dataset, NodeCache, StorageCluster } from '../resources/index.ts';
import { type Plain, resourceType } from './object.ts';

/** The kinds that Hearth reads or writes, with their JSON types. */
export const kinds = {
  StorageCluster: resourceType<StorageCluster>(apiGroup, apiVersion, 'storageclusters', 'StorageCluster', 'Cluster'),
  NodeCache: resourceType<NodeCache>(apiGroup, apiVersion, 'nodecaches', 'NodeCache', 'Cluster'),
  Dataset: resourceType<Dataset>(apiGroup, apiVersion, 'datasets', 'Dataset', 'Namespaced'),
  CachePreload: resourceType<CachePreload>(apiGroup, apiVersion, 'cachepreloads', 'CachePreload', 'Namespaced'),

  ConfigMap: resourceType<ConfigMap>('', 'v1', 'configmaps', 'ConfigMap', 'Namespaced'),
  CoreEvent: resourceType<CoreEvent>('', 'v1', 'events', 'Event', 'Namespaced'),
  Namespace: resourceType<Namespace>('', 'v1', 'namespaces', 'Namespace', 'Cluster'),
  Node: resourceType<Node>('', 'v1', 'nodes', 'Node', 'Cluster'),
  PersistentVolume: resourceType<PersistentVolume>('', 'v1', 'persistentvolumes', 'PersistentVolume', 'Cluster'),
  PersistentVolumeClaim: resourceType<PersistentVolumeClaim>(
    '',
    'v1',
    'persistentvolumeclaims',
    'PersistentVolumeClaim',
    'Namespaced',
  ),
  Pod: resourceType<Pod>('', 'v1', 'pods', 'Pod', 'Namespaced'),
  Secret: resourceType<Secret>('', 'v1', 'secrets', 'Secret', 'Namespaced'),
  Service: resourceType<Service>('', 'v1', 'services', 'Service', 'Namespaced'),

  DaemonSet: resourceType<DaemonSet>('apps', 'v1', 'daemonsets', 'DaemonSet', 'Namespaced'),
  Deployment: resourceType<Deployment>('apps', 'v1', 'deployments', 'Deployment', 'Namespaced'),
  StatefulSet: resourceType<StatefulSet>('apps', 'v1', 'statefulsets', 'StatefulSet', 'Namespaced'),

  StorageClass: resourceType<StorageClass>('storage.k8s.io', 'v1', 'storageclasses', 'StorageClass', 'Cluster'),

  Lease: resourceType<Lease>('coordination.k8s.io', 'v1', 'leases', 'Lease', 'Namespaced'),
  PodDisruptionBudget: resourceType<PodDisruptionBudget>(
    'policy',
    'v1',
    'poddisruptionbudgets',
    'PodDisruptionBudget',
    'Namespaced',
  ),

  CustomResourceDefinition: resourceType<CustomResourceDefinition>(
    'apiextensions.k8s.io',
    'v1',
    'customresourcedefinitions',
    'CustomResourceDefinition',
    'Cluster',
  ),
  MutatingWebhookConfiguration: resourceType<MutatingWebhookConfiguration>(
    'admissionregistration.k8s.io',
    'v1',
    'mutatingwebhookconfigurations',
    'MutatingWebhookConfiguration',
    'Cluster',
  ),
} as const;

export type ConfigMap = Plain<models.V1ConfigMap>;
export type CoreEvent = Plain<models.CoreV1Event>;
export type Namespace = Plain<models.V1Namespace>;
export type Node = Plain<models.V1Node>;
export type PersistentVolume = Plain<models.V1PersistentVolume>;
export type PersistentVolumeClaim = Plain<models.V1PersistentVolumeClaim>;
export type Pod = Plain<models.V1Pod>;
export type Secret = Plain<models.V1Secret>;
export type Service = Plain<models.V1Service>;
export type DaemonSet = Plain<models.V1DaemonSet>;
export type Deployment = Plain<models.V1Deployment>;
export type StatefulSet = Plain<models.V1StatefulSet>;
export type StorageClass = Plain<models.V1StorageClass>;
export type Lease = Plain<models.V1Lease>;
export type PodDisruptionBudget = Plain<models.V1PodDisruptionBudget>;
export type CustomResourceDefinition = Plain<models.V1CustomResourceDefinition>;
export type MutatingWebhookConfiguration = Plain<models.V1MutatingWebhookConfiguration>;
