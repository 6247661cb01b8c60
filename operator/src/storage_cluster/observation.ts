import type { KubernetesObject, ResourceType } from '@hearth/common/kubernetes';
import type { NodeState } from '@hearth/common/resources';
import type { AgentEndpoint, ClientIdentity, ClusterStatus } from '../agents/index.ts';
import type { CertificatePlan, SecretRole } from '../certificates/index.ts';
import type { PlacementConflict } from '../kubernetes/index.ts';
import type { DesiredObject } from './objects/index.ts';
import type { Trouble } from './pod_state.ts';

/** Everything that a pass over a StorageCluster knows. */
export interface Observation {
  now: Date;
  certificates: CertificatePlan;
  /** Versions of the Secrets that were read. */
  secretVersions: Partial<Record<SecretRole, string>>;
  desired: readonly DesiredObject[];
  /** The cluster's objects, but Secrets. */
  owned: readonly { type: ResourceType; object: KubernetesObject }[];
  /** ConfigMaps that pods of the cluster's agents name. */
  configurations: ReadonlySet<string>;
  /** Objects that should be ours but carry another cluster's label. */
  foreign: readonly string[];
  /** References of the spec that are not there, as sentences. */
  missing: readonly string[];
  /** Undefined: the store has no address yet, and nothing is removed. */
  store: StoreState | undefined;
  conflicts: readonly PlacementConflict[];
  /** True when a node of the cluster lacks the label by which its agents are placed. */
  unlabelled: boolean;
  /** Groups that nodes have that label of, those that the spec has no more among them. */
  labelledGroups: ReadonlySet<string>;
  /** `NAMESPACE/NAME on NODE` of pods that keep agents on nodes which are not the cluster's any more. */
  keptBy: readonly string[];
  nodes: readonly NodeState[];
  agents: {
    identity: ClientIdentity;
    endpoints: readonly AgentEndpoint[];
    /** The operator's client of the agents has been given just this. */
    known: boolean;
    /** Why none of them answers; undefined when one does. */
    trouble: string | undefined;
  };
  status: ClusterStatus | undefined;
}

export interface StoreState {
  endpoints: readonly string[];
  ready: boolean;
  /** Why it is not ready. */
  trouble: Trouble | undefined;
  /** A member has lost its data, and the others will not take it back. */
  memberLost: boolean;
}
