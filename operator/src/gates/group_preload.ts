import { isDeepStrictEqual } from 'node:util';
import type { OwnerReference } from '@hearth/common/kubernetes';
import { type CachePreload, finalizerName, type Gate, specHashAnnotation } from '@hearth/common/resources';
import { componentLabel, hashOf, labelsOfOperator } from '../kubernetes/index.ts';
import { controllerOf, groupWords } from './group_name.ts';
import type { GatedMember } from './groups.ts';

/** Waiting pods precede preloads for later. */
const priorities = { Wait: 200, Prefer: 100, Off: 100 } as const;
/**
 * The garbage collector deletes a plan with the last of its owners. A plan with more pods has no owners, as the
 * collector would delete it while unlisted pods remain; the operator deletes each plan with its last pod anyway.
 */
const maxOwners = 50;

const component = 'gate';

export function isOfGate({ metadata, spec }: CachePreload): boolean {
  return metadata.labels?.[componentLabel] === component && spec.placement.gatedPods !== undefined;
}

export function newPreload(
  place: { namespace: string; name: string },
  pods: readonly GatedMember[],
  gate: Gate,
  datasets: readonly string[],
  annotations: Readonly<Record<string, string>> = {},
): CachePreload {
  const spec = specOf(pods, gate, datasets);
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'CachePreload',
    metadata: {
      ...place,
      labels: labelsOfOperator(component),
      annotations: { ...annotations, [specHashAnnotation]: hashOf(spec) },
      // Saves the executor a patch.
      finalizers: [finalizerName],
      ownerReferences: ownersOf(pods, []),
    },
    spec: spec as CachePreload['spec'],
  };
}

/** Pure. Undefined when nothing changes. Keeps present owners, since the pods of a group may come one after another. */
export function preloadChange(
  { metadata }: CachePreload,
  pods: readonly GatedMember[],
  gate: Gate,
  datasets: readonly string[],
): object | undefined {
  const spec = specOf(pods, gate, datasets);
  const hash = hashOf(spec);
  const known = metadata.ownerReferences ?? [];
  const ownerReferences = known.length === 0 ? [] : ownersOf(pods, known);
  if (metadata.annotations?.[specHashAnnotation] === hash && ownerReferences.length === known.length) return undefined;
  const { uid, resourceVersion } = metadata;
  return { metadata: { uid, resourceVersion, annotations: { [specHashAnnotation]: hash }, ownerReferences }, spec };
}

/** Pure. A merge patch with the planned nodes; undefined when the spec has them, in this order if `inOrder`. */
export function nodesChange(
  { metadata, spec }: CachePreload,
  nodes: readonly string[],
  { inOrder }: { inOrder: boolean },
): object | undefined {
  const written = spec.placement.gatedPods?.nodes;
  const sorted = (list: readonly string[] | undefined) => (inOrder ? list : list && [...list].sort());
  if (isDeepStrictEqual(sorted(written), sorted(nodes))) return undefined;
  return { metadata: { uid: metadata.uid }, spec: { placement: { gatedPods: { nodes } } } };
}

/** Without the planned nodes, which a merge keeps. */
function specOf(pods: readonly GatedMember[], gate: Gate, datasets: readonly string[]) {
  const [first] = pods;
  return {
    datasets: datasets.map((name) => ({ name })),
    placement: { gatedPods: { gate, group: first === undefined ? '' : groupWords(first.gated) } },
    priority: priorities[gate.mode],
    readyWhen: gate.readyWhen,
  };
}

function ownersOf(pods: readonly GatedMember[], known: readonly OwnerReference[]): OwnerReference[] {
  const owners = new Map(known.map((owner) => [owner.uid, owner]));
  for (const owner of pods.map(ownerOf)) if (!owners.has(owner.uid)) owners.set(owner.uid, owner);
  return owners.size > maxOwners ? [] : [...owners.values()];
}

/** The controller of the pod, else the pod. The owner may be deleted before the plan. */
function ownerOf({ gated, name, uid }: GatedMember): OwnerReference {
  const owner = controllerOf(gated) ?? { apiVersion: 'v1', kind: 'Pod', name, uid };
  const { apiVersion, kind } = owner;
  return { apiVersion, kind, name: owner.name, uid: owner.uid, controller: false, blockOwnerDeletion: false };
}
