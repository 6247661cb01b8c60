import {
  apiGroup,
  type Dataset,
  datasets,
  driverName,
  parseQuantity,
  type StorageCluster,
  volumeMountOptions,
} from '@hearth/common/resources';
import { findCondition } from '../reconciler/index.ts';
import type { ClassView, PendingClaim } from './claim.ts';

export interface VolumeRequest {
  /** The name of the PersistentVolume, the same for every attempt. */
  name: string;
  claim: PendingClaim;
  storageClass: ClassView;
  cluster: StorageCluster;
  capacityBytes: bigint;
  /** An empty writable volume of the agents; else a Dataset. */
  scratch: boolean;
}

export type ClaimPlan =
  | { kind: 'none' }
  /** The event that ends the wait starts another pass. */
  | { kind: 'wait'; type: 'Normal' | 'Warning'; reason: string; message: string }
  | { kind: 'provision'; request: VolumeRequest };

const knownParameters = ['cluster', 'kind'];

/** Pure. Decides as the external provisioner does, with a Dataset as the source, or none for a class of scratch volumes. */
export function planClaim(
  claim: PendingClaim | undefined,
  storageClass: ClassView | undefined,
  dataset: Dataset | undefined,
  clusters: readonly StorageCluster[],
): ClaimPlan {
  if (claim === undefined || storageClass === undefined || claim.deleting) return { kind: 'none' };
  // Without this annotation the control plane may still bind an existing volume.
  if (claim.provisioner !== driverName) return { kind: 'none' };
  if (storageClass.waitsForConsumer && claim.selectedNode === '') return { kind: 'none' };
  const refused = refuse(claim, storageClass);
  if (refused !== undefined) return { kind: 'wait', type: 'Warning', reason: 'ProvisioningFailed', message: refused };
  const requiredBytes = parseQuantity(claim.request);
  if (requiredBytes === undefined) {
    const message = `the storage request "${claim.request}" is not a whole number of bytes; write it as in 10Gi`;
    return { kind: 'wait', type: 'Warning', reason: 'ProvisioningFailed', message };
  }
  if (isScratch(storageClass)) return planScratch(claim, storageClass, requiredBytes, clusters);
  return planVolume(claim, storageClass, requiredBytes, dataset, clusters);
}

function isScratch({ parameters }: ClassView): boolean {
  return parameters.kind !== undefined;
}

/** Why the claim cannot get a volume; undefined when it can. */
function refuse(claim: PendingClaim, storageClass: ClassView): string | undefined {
  const refusedSource = isScratch(storageClass) ? refuseScratch(claim, storageClass) : refuseSource(claim);
  if (refusedSource !== undefined) return refusedSource;
  if (claim.block) return 'a volume is a folder of files and cannot be a block device; set volumeMode: Filesystem';
  if (claim.selector) return 'a claim that asks for a new volume cannot have a selector; remove spec.selector';
  const unknown = Object.keys(storageClass.parameters).filter((name) => !knownParameters.includes(name));
  if (unknown.length > 0) {
    return `StorageClass ${storageClass.name} has unknown parameters (${unknown.join(', ')}); known are ${knownParameters.join(', ')}`;
  }
  const options = volumeMountOptions.filter((option) => option !== 'ro' || !isScratch(storageClass));
  if (storageClass.mountOptions.every((option) => options.includes(option))) return undefined;
  return `mount options of StorageClass ${storageClass.name} may be ${options.join(', ')}; remove all others`;
}

function refuseScratch({ source }: PendingClaim, { name, parameters }: ClassView): string | undefined {
  if (parameters.kind !== 'scratch') {
    return `StorageClass ${name} has the kind ${parameters.kind}; this release has volumes of the kind scratch`;
  }
  return source && 'a scratch volume begins empty; remove dataSourceRef, or use a StorageClass of Datasets';
}

function refuseSource({ source }: PendingClaim): string | undefined {
  if (source === undefined) {
    return `the volume would show a Dataset: give the claim a dataSourceRef with apiGroup ${apiGroup}, kind ${datasets.kind} and its name, or use a StorageClass of scratch volumes (parameter kind)`;
  }
  if (source.apiGroup !== apiGroup || source.kind !== datasets.kind) {
    return `dataSourceRef is of kind ${source.kind} of the group "${source.apiGroup}"; ${driverName} makes volumes from kind ${datasets.kind} of the group ${apiGroup}`;
  }
  if (source.namespace !== '') {
    return `dataSourceRef names the namespace ${source.namespace}; a claim may use only a Dataset of its own namespace, so leave it out`;
  }
  return undefined;
}

/** Needs no agent yet: the volume is made when the claim is provisioned. */
function planScratch(
  claim: PendingClaim,
  storageClass: ClassView,
  capacityBytes: bigint,
  clusters: readonly StorageCluster[],
): ClaimPlan {
  const wanted = storageClass.parameters.cluster;
  const fitting = clusters.filter(({ metadata }) => wanted === undefined || metadata.name === wanted);
  const [cluster] = fitting;
  if (cluster === undefined) {
    const message = `waits for ${wanted === undefined ? 'a StorageCluster' : `StorageCluster ${wanted}`}`;
    return { kind: 'wait', type: 'Normal', reason: 'WaitingForStorageCluster', message };
  }
  if (fitting.length > 1) {
    const message = `there are several StorageClusters; name one in the parameter cluster of StorageClass ${storageClass.name}`;
    return { kind: 'wait', type: 'Warning', reason: 'ProvisioningFailed', message };
  }
  return provision(claim, storageClass, cluster, capacityBytes, true);
}

function provision(
  claim: PendingClaim,
  storageClass: ClassView,
  cluster: StorageCluster,
  capacityBytes: bigint,
  scratch: boolean,
): ClaimPlan {
  return {
    kind: 'provision',
    request: { name: `pvc-${claim.uid}`, claim, storageClass, cluster, capacityBytes, scratch },
  };
}

function planVolume(
  claim: PendingClaim,
  storageClass: ClassView,
  requiredBytes: bigint,
  dataset: Dataset | undefined,
  clusters: readonly StorageCluster[],
): ClaimPlan {
  const what = `Dataset ${claim.namespace}/${claim.source?.name}`;
  const wait = (type: 'Normal' | 'Warning', reason: string, message: string): ClaimPlan => {
    return { kind: 'wait', type, reason, message };
  };
  if (dataset === undefined) return wait('Normal', 'WaitingForDataset', `waits for ${what}, which does not exist yet`);
  if (dataset.metadata.deletionTimestamp !== undefined) {
    return wait('Warning', 'DatasetIsDeleted', `${what} is being deleted; Hearth makes no new volumes of it`);
  }
  const ready = findCondition(dataset.status?.conditions, 'Ready');
  const { manifest, bytes = 0 } = dataset.status ?? {};
  const cluster = clusterOf(dataset, clusters);
  const isListed = ready?.status === 'True' && dataset.status?.cluster !== undefined && manifest !== undefined;
  if (cluster === undefined || !(isListed || waitsForNodes(ready?.reason, cluster))) {
    const why = ready === undefined ? 'it is new' : `${ready.reason}: ${ready.message}`;
    return wait('Normal', 'WaitingForDataset', `waits for ${what} to be Ready (${why})`);
  }
  const { name } = cluster.metadata;
  const requested = storageClass.parameters.cluster;
  if (requested !== undefined && requested !== name) {
    const message = `${what} is cached by StorageCluster ${name}, and StorageClass ${storageClass.name} is for ${requested}; choose another StorageClass`;
    return wait('Warning', 'ProvisioningFailed', message);
  }
  const capacityBytes = requiredBytes > bytes ? requiredBytes : BigInt(bytes);
  return provision(claim, storageClass, cluster, capacityBytes, false);
}

/** A Dataset that no agent has listed yet has no cluster in its status. */
function clusterOf({ spec, status }: Dataset, clusters: readonly StorageCluster[]): StorageCluster | undefined {
  const name = status?.cluster ?? spec.clusterRef?.name;
  if (name === undefined) return clusters.length === 1 ? clusters[0] : undefined;
  return clusters.find(({ metadata }) => metadata.name === name);
}

/** An autoscaler makes the first node only for a pod whose claim is bound, and only a node can list the origin. */
function waitsForNodes(reason: string | undefined, { status }: StorageCluster): boolean {
  return reason === 'AgentsUnavailable' && status?.nodesDesired === 0;
}
