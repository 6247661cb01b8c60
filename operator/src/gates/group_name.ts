import { createHash } from 'node:crypto';
import type { OwnerReference, Pod } from '@hearth/common/kubernetes';
import { gateAnnotations, podGroupLabel } from '@hearth/common/resources';
import { canonical } from '../kubernetes/index.ts';

/** With a dash and ten digits the name is a DNS label. */
const longestWord = 52;

export function controllerOf(pod: Pick<Pod, 'metadata'>): OwnerReference | undefined {
  return pod.metadata?.ownerReferences?.find(({ controller }) => controller);
}

/**
 * Pure. The CachePreload of a pod under admission: one for each group label, else for each controller and template,
 * else for the pod alone. `random` distinguishes such pods, which have no uid and maybe no name yet.
 */
export function preloadName(pod: Pick<Pod, 'metadata' | 'spec'>, namespace: string, random: string): string {
  const { labels = {}, name, generateName } = pod.metadata ?? {};
  const label = labels[podGroupLabel];
  const owner = controllerOf(pod);
  if (label) return nameOf(label, ['group', namespace, label]);
  if (owner !== undefined) return nameOf(owner.name, ['owner', owner.uid, templateOf(pod)]);
  return nameOf(name ?? generateName ?? 'pod', ['pod', random]);
}

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

/** Decides where a pod can run and how it waits. Volumes and host names differ among pods of one controller. */
function templateOf({ metadata, spec }: Pick<Pod, 'metadata' | 'spec'>): unknown {
  const containers = (list: NonNullable<Pod['spec']>['containers'] | undefined) =>
    (list ?? []).map(({ resources, ports, restartPolicy }) => [
      resources ?? {},
      (ports ?? [])
        .filter(({ hostPort }) => hostPort)
        .map(({ hostIP, hostPort, protocol }) => [hostIP, hostPort, protocol]),
      restartPolicy,
    ]);
  // The previous release does not know `readyWhen`, so an unset `readyWhen` must not change the name.
  const { readyWhen, ...gate } = gateAnnotations;
  const annotationOf = (name: string) => metadata?.annotations?.[name];
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
    Object.values(gate).map(annotationOf),
    ...(annotationOf(readyWhen) === undefined ? [] : [annotationOf(readyWhen)]),
  ];
}
