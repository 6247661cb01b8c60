import { listed } from '@hearth/common';
import { forceStoreChangeAnnotation, type StorageCluster } from '@hearth/common/resources';
import { type ConditionState, condition } from '../reconciler/index.ts';

/** The part of a PersistentVolume that says which records of the store it needs. */
export interface StoredVolume {
  name: string;
  claim: string;
  cluster: string;
  /** A scratch volume, whose names are in one log on one node. */
  scratch: boolean;
  /** The node of that log; empty: not recorded. */
  logNode: string;
  deleting: boolean;
}

/** A change of the store that the operator does not make, because volumes would be lost. */
export interface RefusedChange {
  /** `Rebuild`: all members begin empty. `Move`: agents restart with another store. */
  kind: 'Rebuild' | 'Move';
  /** Sentences' parts, such as `pvc-1 (claim team/kv, log on node a)`. Never empty. */
  volumes: readonly string[];
}

export interface StoreChange {
  cluster: StorageCluster;
  /** Of all clusters. */
  volumes: readonly StoredVolume[];
  /** Nodes whose agents run. */
  running: ReadonlySet<string>;
  /** Nodes of the cluster. */
  nodes: readonly string[];
  memberLost: boolean;
  /** The store of the spec is not the one that agents use. */
  moved: boolean;
}

/**
 * Pure. The agent with a volume's log writes the volume's record into an emptied store again, so a rebuild loses the
 * volumes whose agent does not run. Agents that restart with another store know no volume. Undefined: the change loses
 * nothing, or the annotation forces it. A volume that is being deleted does not count.
 */
export function refusedStoreChange(change: StoreChange): RefusedChange | undefined {
  const { cluster, volumes, running, nodes, memberLost, moved } = change;
  if (!memberLost && !moved) return undefined;
  if (cluster.metadata.annotations?.[forceStoreChangeAnnotation] === 'true') return undefined;
  const isAway = ({ logNode }: StoredVolume) =>
    logNode === '' ? nodes.some((node) => !running.has(node)) : !running.has(logNode);
  const lost = volumes
    .filter((one) => one.scratch && one.cluster === cluster.metadata.name && !one.deleting && (moved || isAway(one)))
    .map(({ name, claim, logNode }) => `${name} (claim ${claim}${logNode === '' ? '' : `, log on node ${logNode}`})`);
  if (lost.length === 0) return undefined;
  return { kind: moved ? 'Move' : 'Rebuild', volumes: lost.sort() };
}

/** True when the spec names another store than the one that the status reports. */
export function isStoreMoved({ spec, status }: StorageCluster, next: readonly string[], hasOwnStore: boolean): boolean {
  const former = status?.store?.endpoints ?? [];
  if (former.length === 0 || next.length === 0 || former.some((endpoint) => next.includes(endpoint))) return false;
  // The address of the operator's own store changes with its Service, and the members keep their data.
  return spec.store.endpoints !== undefined || !hasOwnStore;
}

/** For people; does not affect Ready. */
export function storeDataCondition(refused: RefusedChange | undefined, cluster: StorageCluster): ConditionState {
  const type = 'StoreData';
  if (refused === undefined) return condition(type, 'True', 'Kept', 'No change of the store would lose a volume');
  const named = listed(refused.volumes, { most: 10 });
  const force = `To go on without them: kubectl annotate storagecluster ${cluster.metadata.name} ${forceStoreChangeAnnotation}=true`;
  if (refused.kind === 'Move') {
    const message = `The operator does not move agents to the store of the spec, which has no record of these scratch volumes: ${named}; give the former store back, or delete their claims. ${force}`;
    return condition(type, 'False', 'MoveRefused', message);
  }
  const message = `A member of the store has lost its data, and the operator does not rebuild the store, because these scratch volumes would be lost: ${named}; bring the agents of those nodes back, or delete the claims. ${force}`;
  return condition(type, 'False', 'RebuildRefused', message);
}
