import type { KubernetesObject, ResourceType } from '@hearth/common/kubernetes';
import type { NodeState } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { CertificatePlan, SecretRole } from '../certificates/index.ts';
import type { PlacementConflict } from '../kubernetes/index.ts';
import type { DesiredObject } from './objects/index.ts';
import type { Trouble } from './pod_state.ts';
import type { RefusedChange } from './store_data.ts';

/** Everything that one pass reads. */
export interface Observation {
  now: Date;
  certificates: CertificatePlan;
  /** Resource versions of the Secrets. */
  secretVersions: Partial<Record<SecretRole, string>>;
  desired: readonly DesiredObject[];
  /** The cluster's objects, except Secrets. */
  owned: readonly { type: ResourceType; object: KubernetesObject }[];
  /** ConfigMaps that agents' pods name. */
  configurations: ReadonlySet<string>;
  /** Desired objects whose names another cluster uses. */
  foreign: readonly string[];
  /** Missing references of the spec, as sentences. */
  missing: readonly string[];
  /** Undefined while the store has no address; then nothing is deleted. */
  store: StoreState | undefined;
  /** Undefined: the store needs no change, or a change loses no volume. */
  refused: RefusedChange | undefined;
  conflicts: readonly PlacementConflict[];
  /** True when a node lacks the label that places its agent. */
  unlabelled: boolean;
  /** Groups in labels of nodes, removed groups included. */
  labelledGroups: ReadonlySet<string>;
  /** `NAMESPACE/NAME on NODE` of pods that keep agents on former nodes. */
  keptBy: readonly string[];
  nodes: readonly NodeState[];
  agents: {
    /** The number of agents that run. */
    running: number;
    /** Why no agent answers; undefined when one does. */
    trouble: string | undefined;
  };
  status: ClusterStatus | undefined;
}

export interface StoreState {
  endpoints: readonly string[];
  ready: boolean;
  trouble: Trouble | undefined;
  /** A member lost its data, and the others reject it. */
  memberLost: boolean;
}
