import type * as models from '@kubernetes/client-node';
import type { CachePreload } from '../resources/cache_preload.ts';
import type { Dataset } from '../resources/dataset.ts';
import { apiGroup, apiVersion } from '../resources/names.ts';
import type { NodeCache } from '../resources/node_cache.ts';
import type { StorageCluster } from '../resources/storage_cluster.ts';
import { type Plain, resourceType } from './object.ts';

/** The kinds that Hearth reads or makes, with their types as in JSON. */
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
  ServiceAccount: resourceType<ServiceAccount>('', 'v1', 'serviceaccounts', 'ServiceAccount', 'Namespaced'),

  ControllerRevision: resourceType<ControllerRevision>(
    'apps',
    'v1',
    'controllerrevisions',
    'ControllerRevision',
    'Namespaced',
  ),
  DaemonSet: resourceType<DaemonSet>('apps', 'v1', 'daemonsets', 'DaemonSet', 'Namespaced'),
  Deployment: resourceType<Deployment>('apps', 'v1', 'deployments', 'Deployment', 'Namespaced'),
  StatefulSet: resourceType<StatefulSet>('apps', 'v1', 'statefulsets', 'StatefulSet', 'Namespaced'),
  Job: resourceType<Job>('batch', 'v1', 'jobs', 'Job', 'Namespaced'),

  CSIDriver: resourceType<CSIDriver>('storage.k8s.io', 'v1', 'csidrivers', 'CSIDriver', 'Cluster'),
  CSINode: resourceType<CSINode>('storage.k8s.io', 'v1', 'csinodes', 'CSINode', 'Cluster'),
  StorageClass: resourceType<StorageClass>('storage.k8s.io', 'v1', 'storageclasses', 'StorageClass', 'Cluster'),
  VolumeAttachment: resourceType<VolumeAttachment>(
    'storage.k8s.io',
    'v1',
    'volumeattachments',
    'VolumeAttachment',
    'Cluster',
  ),

  EndpointSlice: resourceType<EndpointSlice>('discovery.k8s.io', 'v1', 'endpointslices', 'EndpointSlice', 'Namespaced'),
  Lease: resourceType<Lease>('coordination.k8s.io', 'v1', 'leases', 'Lease', 'Namespaced'),
  PodDisruptionBudget: resourceType<PodDisruptionBudget>(
    'policy',
    'v1',
    'poddisruptionbudgets',
    'PodDisruptionBudget',
    'Namespaced',
  ),
  Role: resourceType<Role>('rbac.authorization.k8s.io', 'v1', 'roles', 'Role', 'Namespaced'),
  RoleBinding: resourceType<RoleBinding>(
    'rbac.authorization.k8s.io',
    'v1',
    'rolebindings',
    'RoleBinding',
    'Namespaced',
  ),
  ClusterRole: resourceType<ClusterRole>('rbac.authorization.k8s.io', 'v1', 'clusterroles', 'ClusterRole', 'Cluster'),
  ClusterRoleBinding: resourceType<ClusterRoleBinding>(
    'rbac.authorization.k8s.io',
    'v1',
    'clusterrolebindings',
    'ClusterRoleBinding',
    'Cluster',
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
  ValidatingAdmissionPolicy: resourceType<ValidatingAdmissionPolicy>(
    'admissionregistration.k8s.io',
    'v1',
    'validatingadmissionpolicies',
    'ValidatingAdmissionPolicy',
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
export type ServiceAccount = Plain<models.V1ServiceAccount>;
export type ControllerRevision = Plain<models.V1ControllerRevision>;
export type DaemonSet = Plain<models.V1DaemonSet>;
export type Deployment = Plain<models.V1Deployment>;
export type StatefulSet = Plain<models.V1StatefulSet>;
export type Job = Plain<models.V1Job>;
export type CSIDriver = Plain<models.V1CSIDriver>;
export type CSINode = Plain<models.V1CSINode>;
export type StorageClass = Plain<models.V1StorageClass>;
export type VolumeAttachment = Plain<models.V1VolumeAttachment>;
export type EndpointSlice = Plain<models.V1EndpointSlice>;
export type Lease = Plain<models.V1Lease>;
export type PodDisruptionBudget = Plain<models.V1PodDisruptionBudget>;
export type Role = Plain<models.V1Role>;
export type RoleBinding = Plain<models.V1RoleBinding>;
export type ClusterRole = Plain<models.V1ClusterRole>;
export type ClusterRoleBinding = Plain<models.V1ClusterRoleBinding>;
export type CustomResourceDefinition = Plain<models.V1CustomResourceDefinition>;
export type MutatingWebhookConfiguration = Plain<models.V1MutatingWebhookConfiguration>;
export type ValidatingAdmissionPolicy = Plain<models.V1ValidatingAdmissionPolicy>;
