import { createHash } from 'node:crypto';
import type { OwnerReference, Pod } from '@hearth/common/kubernetes';
import { gateAnnotations, podGroupLabel } from '@hearth/common/resources';
import { canonical } from '../kubernetes/index.ts';

/** So that with a dash and ten digits it is a DNS label. */
const longestWord = 52;

/** The controller of a pod; undefined: it was made by hand. */
export function controllerOf(pod: Pick<Pod, 'metadata'>): OwnerReference | undefined {
  return pod.metadata?.ownerReferences?.find(({ controller }) => controller);
}

/**
 * Pure. Name of the CachePreload for a pod that is being admitted: the same for all pods of its group, which is the
 * group of its label; else the pods of its controller that were made from one template; else the pod alone, which has
 * neither a uid nor always a name yet: `random` distinguishes it from all others.
 */
export function preloadName(pod: Pick<Pod, 'metadata' | 'spec'>, namespace: string, random: string): string {
  const { labels = {}, name, generateName } = pod.metadata ?? {};
  const label = labels[podGroupLabel];
  const owner = controllerOf(pod);
  if (label) return nameOf(label, ['group', namespace, label]);
  if (owner !== undefined) return nameOf(owner.name, ['owner', owner.uid, templateOf(pod)]);
  return nameOf(name ?? generateName ?? 'pod', ['pod', random]);
}

/** Names the common property of a group's pods, for people. */
export function groupWords(pod: Pick<Pod, 'metadata'>): string {
  const label = pod.metadata?.labels?.[podGroupLabel];
  if (label) return `pod group ${label}`;
  const owner = controllerOf(pod);
  return owner === undefined ? `Pod/${pod.metadata?.name}` : `${owner.kind}/${owner.name}`;
}

function nameOf(word: string, key: readonly unknown[]): string {
  const digits = createHash('sha256').update(canonical(key)).digest('hex').slice(0, 10);
  const start = word
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, longestWord)
    .replace(/^-+|-+$/g, '');
  return start === '' ? digits : `${start}-${digits}`;
}

/**
 * The fields that decide where a pod can run and how it waits. Neither volumes nor names are among them: the pods of a
 * StatefulSet have claims of their own, the pods of an indexed Job host names.
 */
function templateOf({ metadata, spec }: Pick<Pod, 'metadata' | 'spec'>): unknown {
  const containers = (list: NonNullable<Pod['spec']>['containers'] | undefined) =>
    (list ?? []).map(({ resources, ports, restartPolicy }) => [
      resources ?? {},
      (ports ?? [])
        .filter(({ hostPort }) => hostPort)
        .map(({ hostIP, hostPort, protocol }) => [hostIP, hostPort, protocol]),
      restartPolicy,
    ]);
  // Fields that the previous release did not know enter the name only where they are set: names stay the same.
  const { readyWhen, ...gate } = gateAnnotations;
  const said = (annotation: string) => metadata?.annotations?.[annotation];
  return [
    containers(spec?.containers),
    containers(spec?.initContainers),
    spec?.resources,
    spec?.overhead,
    spec?.nodeSelector,
    spec?.affinity,
    spec?.tolerations,
    spec?.topologySpreadConstraints,
    spec?.schedulerName,
    spec?.hostNetwork,
    Object.values(gate).map(said),
    ...(said(readyWhen) === undefined ? [] : [said(readyWhen)]),
  ];
}
