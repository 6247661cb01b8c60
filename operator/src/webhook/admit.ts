import type { Pod } from '@hearth/common/kubernetes';
import { gateAnnotations, preloadAnnotation, preloadGateName } from '@hearth/common/resources';
import { chooseGate, controllerOf, type PodDatasets, preloadName } from '../gates/index.ts';

/** RFC 6902. */
export type PatchOperation = { op: 'add'; path: string; value: unknown };

export interface Admission {
  result: 'gated' | 'provisional' | 'unchanged';
  patch: PatchOperation[];
  /** Shown to the creator of the pod. */
  warnings: string[];
}

const mirrorAnnotation = 'kubernetes.io/config.mirror';

/** Pods that need no gate: bound pods, static pods, pods of DaemonSets, and pods that already have our gate. */
export function isExempt(pod: Pod): boolean {
  const { metadata, spec } = pod;
  if (spec?.nodeName) return true;
  if (metadata?.annotations?.[mirrorAnnotation] !== undefined) return true;
  const owner = controllerOf(pod);
  if (owner?.kind === 'DaemonSet' || owner?.kind === 'Node') return true;
  return spec?.schedulingGates?.some(({ name }) => name === preloadGateName) ?? false;
}

/**
 * Pure. Gates the pod if its Datasets or annotations ask for it, and provisionally if objects between pod and Datasets
 * are missing; the operator soon removes a needless gate. `random` names the group of a pod without a group.
 */
export function admit(pod: Pod, namespace: string, found: PodDatasets, random: string): Admission {
  const unchanged = (warnings: string[] = []): Admission => ({ result: 'unchanged', patch: [], warnings });
  if (isExempt(pod)) return unchanged();
  const { annotations = {} } = pod.metadata ?? {};
  const { datasets, missing } = found;
  const { gate, warnings } = chooseGate(datasets, annotations);
  if (datasets.length === 0 && missing.length === 0) {
    if (gate.mode === 'Off') return unchanged(warnings);
    return unchanged([...warnings, 'hearth: no volume of the pod is one of a Dataset; Hearth ignores its gate']);
  }
  // The pod's own annotation overrides unknown Datasets.
  const off = gate.mode === 'Off' && (missing.length === 0 || annotations[gateAnnotations.mode] === 'Off');
  if (off) return unchanged(warnings);
  return {
    result: gate.mode === 'Off' || datasets.length === 0 ? 'provisional' : 'gated',
    patch: gatePatch(pod, preloadName(pod, namespace, random)),
    warnings,
  };
}

function gatePatch({ metadata, spec }: Pod, preload: string): PatchOperation[] {
  const gate = { name: preloadGateName };
  const key = preloadAnnotation.replace('~', '~0').replace('/', '~1');
  return [
    spec?.schedulingGates === undefined
      ? { op: 'add', path: '/spec/schedulingGates', value: [gate] }
      : { op: 'add', path: '/spec/schedulingGates/-', value: gate },
    metadata?.annotations === undefined
      ? { op: 'add', path: '/metadata/annotations', value: { [preloadAnnotation]: preload } }
      : { op: 'add', path: `/metadata/annotations/${key}`, value: preload },
  ];
}
