import type { Applied, OwnerReference } from '@hearth/common/kubernetes';
import { type CachePreload, type Gate, specHashAnnotation } from '@hearth/common/resources';
import { hashOf, labelsOfOperator } from '../storage_cluster/index.ts';
import { controllerOf, groupWords } from './group_name.ts';
import type { GatedMember } from './groups.ts';

/** Pods that wait go before what is preloaded for later. */
const priorities = { Wait: 200, Prefer: 100, Off: 100 } as const;
/** The garbage collector takes a plan away with the last of its owners. */
const mostOwners = 50;

const component = 'gate';
const componentLabel = 'app.kubernetes.io/component';

/** Whether the operator made this one for a group of pods. */
export function isOfGate({ metadata, spec }: CachePreload): boolean {
  return metadata.labels?.[componentLabel] === component && spec.placement.gatedPods !== undefined;
}

/**
 * Pure. The CachePreload of a group as it should be; undefined: it is so. Owners that it has stay: pods of a group may
 * come one after the other.
 */
export function desiredPreload(
  key: { namespace: string; name: string },
  pods: readonly GatedMember[],
  gate: Gate,
  datasets: readonly string[],
  present: CachePreload | undefined,
): Applied<CachePreload> | undefined {
  const [first] = pods;
  if (first === undefined) return undefined;
  const spec = {
    datasets: datasets.map((name) => ({ name })),
    placement: { gatedPods: { gate, group: groupWords(first.gated) } },
    priority: priorities[gate.mode],
  };
  const owners = new Map((present?.metadata.ownerReferences ?? []).map((owner) => [owner.uid, owner]));
  const before = owners.size;
  for (const owner of pods.map(ownerOf)) {
    if (owners.size < mostOwners && !owners.has(owner.uid)) owners.set(owner.uid, owner);
  }
  const hash = hashOf(spec);
  if (present?.metadata.annotations?.[specHashAnnotation] === hash && owners.size === before) return undefined;
  const metadata = {
    ...key,
    labels: labelsOfOperator(component),
    annotations: { [specHashAnnotation]: hash },
    ownerReferences: [...owners.values()],
  };
  return { metadata, spec } as unknown as Applied<CachePreload>;
}

/** The controller of the pod, else the pod. It may go without waiting for the plan. */
function ownerOf({ gated, name, uid }: GatedMember): OwnerReference {
  const controller = controllerOf(gated);
  const owner = controller ?? { apiVersion: 'v1', kind: 'Pod', name, uid };
  return {
    apiVersion: owner.apiVersion,
    kind: owner.kind,
    name: owner.name,
    uid: owner.uid,
    controller: false,
    blockOwnerDeletion: false,
  };
}
