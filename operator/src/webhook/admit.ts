import type { Pod } from '@hearth/common/kubernetes';
import { gateAnnotations, preloadAnnotation, preloadGateName } from '@hearth/common/resources';
import { chooseGate, controllerOf, type PodDatasets, preloadName } from '../gates/index.ts';

/** An operation of RFC 6902. */
export interface PatchOperation {
  op: 'add';
  path: string;
  value: unknown;
}

export interface Admission {
  /** In one word, for logs and metrics. */
  result: 'gated' | 'provisional' | 'unchanged';
  /** Empty: the pod is admitted as it is. */
  patch: PatchOperation[];
  /** Shown to whoever makes the pod. */
  warnings: string[];
}

const mirrorAnnotation = 'kubernetes.io/config.mirror';

/**
 * Pods that a gate would only hurt: those that have a node already or a node that made them, and those of which every
 * node has one. A pod with our gate has been here before.
 */
export function isExempt(pod: Pod): boolean {
  const { metadata, spec } = pod;
  if (spec?.nodeName) return true;
  if (metadata?.annotations?.[mirrorAnnotation] !== undefined) return true;
  const owner = controllerOf(pod);
  if (owner?.kind === 'DaemonSet' || owner?.kind === 'Node') return true;
  return spec?.schedulingGates?.some(({ name }) => name === preloadGateName) ?? false;
}

/**
 * Pure. What becomes of a pod that is being made. It is gated when its Datasets or its annotations say so, and
 * provisionally when objects between it and its Datasets are not there yet: then its gate is removed as soon as it
 * proves needless. `random`: makes the name of a pod that belongs to no group.
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
  // The pod's own gate stands, whatever unknown Datasets say.
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
