import { listed } from '@hearth/common';
import { type PersistentVolume, type Pod, podVolumes } from '@hearth/common/kubernetes';
import { driverName } from '@hearth/common/resources';
import type { Source } from './placement.ts';

/** Volumes of a pod that the kubelet of its node mounts. */
export interface PodMounts {
  node: string;
  /** StorageClusters of inline volumes of our driver; empty for the node's own. */
  clusters: readonly string[];
  /** Names of claims in the pod's namespace, of any driver. */
  claims: readonly string[];
}

/** The claim of a volume of our driver, as `NAMESPACE/NAME`, and its StorageCluster; empty for the node's own. */
export type ClaimedVolume = { claim: string; cluster: string };

/** Undefined for a pod without a node or such volumes, and for one that has ended, whose volumes the kubelet unmounts. */
export function podMounts(pod: Pod): PodMounts | undefined {
  const { spec, status } = pod;
  if (!spec?.nodeName || status?.phase === 'Succeeded' || status?.phase === 'Failed') return undefined;
  const clusters = (spec.volumes ?? []).flatMap(({ csi }) =>
    csi?.driver === driverName ? [csi.volumeAttributes?.cluster ?? ''] : [],
  );
  const claims = podVolumes(pod).flatMap((one) => (one.kind === 'dataset' ? [] : [one.claim]));
  return clusters.length + claims.length === 0 ? undefined : { node: spec.nodeName, clusters, claims };
}

/** Undefined for a volume of another driver. */
export function claimedVolume({ spec }: PersistentVolume): ClaimedVolume | undefined {
  if (spec?.csi?.driver !== driverName) return undefined;
  const { namespace, name } = spec.claimRef ?? {};
  return { claim: `${namespace}/${name}`, cluster: spec.csi.volumeAttributes?.cluster ?? '' };
}

/** Pods with our volumes by their nodes. Kept current by watches, or filled once from lists. */
export class MountingPods {
  /** Pods by their key, by node. */
  readonly #pods = new Map<string, Map<string, PodMounts>>();
  /** StorageClusters by the name of the volume, by claim. */
  readonly #claims = new Map<string, Map<string, string>>();

  /** Ends with the returned function. */
  follow(pods: Source<PodMounts>, volumes: Source<ClaimedVolume>): () => void {
    const stops = [
      pods.onChange((key, before, after) => this.podChanged(key, before, after)),
      volumes.onChange((name, before, after) => this.volumeChanged(name, before, after)),
    ];
    for (const key of pods.keys()) this.podChanged(key, undefined, pods.get(key));
    for (const name of volumes.keys()) this.volumeChanged(name, undefined, volumes.get(name));
    return () => {
      for (const stop of stops) stop();
    };
  }

  podChanged(key: string, before: PodMounts | undefined, after: PodMounts | undefined): void {
    if (before !== undefined) remove(this.#pods, before.node, key);
    if (after !== undefined) put(this.#pods, after.node, key, after);
  }

  volumeChanged(name: string, before: ClaimedVolume | undefined, after: ClaimedVolume | undefined): void {
    if (before !== undefined) remove(this.#claims, before.claim, name);
    if (after !== undefined) put(this.#claims, after.claim, name, after.cluster);
  }

  /**
   * `NAMESPACE/NAME on NODE` of pods on these nodes, absent: on all, that mount volumes of such a StorageCluster, which is
   * empty for the node's own. Sorted.
   */
  on(nodes: Iterable<string> = this.#pods.keys(), isWanted: (cluster: string) => boolean = () => true): string[] {
    const mounting: string[] = [];
    for (const node of nodes) {
      for (const [key, mounts] of this.#pods.get(node) ?? []) {
        if (this.#clustersOf(key, mounts).some(isWanted)) mounting.push(`${key} on ${node}`);
      }
    }
    return mounting.sort();
  }

  #clustersOf(key: string, { clusters, claims }: PodMounts): string[] {
    const namespace = key.slice(0, key.indexOf('/'));
    return [...clusters, ...claims.flatMap((name) => [...(this.#claims.get(`${namespace}/${name}`)?.values() ?? [])])];
  }
}

export function namedPods(pods: readonly string[]): string {
  return listed(pods, { most: 10 });
}

function put<V>(index: Map<string, Map<string, V>>, group: string, key: string, value: V): void {
  const members = index.get(group) ?? new Map<string, V>();
  index.set(group, members.set(key, value));
}

function remove<V>(index: Map<string, Map<string, V>>, group: string, key: string): void {
  const members = index.get(group);
  members?.delete(key);
  if (members?.size === 0) index.delete(group);
}
