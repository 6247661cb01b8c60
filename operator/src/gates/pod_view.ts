import type { Pod } from '@hearth/common/kubernetes';
import { preloadAnnotation, preloadGateName } from '@hearth/common/resources';
import { type Uses, usesOfPod } from '../dataset/index.ts';
import { type RunningPod, runningPod } from '../planner/index.ts';
import { type AwaitingPod, awaitingPod } from '../waiting/index.ts';
import { Interned } from './interned.ts';

/** The kept part of a pod. There may be hundreds of thousands, so it is small for most. */
export interface PodView {
  /** Of Datasets, by inline volumes. */
  uses: Uses;
  /** It cannot start before its volumes are there. */
  awaiting?: AwaitingPod;
  /** Room that it takes on its node. */
  running?: RunningPod;
  /** It has, or had, a gate of ours. */
  member?: Member;
}

/** A pod that has not ended, of a group of pods that are or were gated. */
export interface Member {
  namespace: string;
  name: string;
  uid: string;
  /** Milliseconds since the epoch, by the API server's clock, which counts seconds. */
  createdAt: number;
  /** Name of its CachePreload; '' when another client gave it our gate. */
  preload: string;
  /** '' as long as it has none. */
  node: string;
  deleting: boolean;
  /** The pod itself, without its status, as long as it has our gate. */
  gated: Pod | undefined;
}

const shared = new Interned<object>();

/** The projection of the reflector: undefined for pods that are of no interest. */
export function podView(pod: Pod): PodView | undefined {
  const uses = usesOfPod(pod);
  const running = runningPod(pod);
  const member = memberOf(pod);
  if (running === undefined && member === undefined && uses.size === 0) return undefined;
  const awaiting = uses.size === 0 ? undefined : awaitingPod(pod);
  return {
    uses,
    ...(awaiting === undefined ? {} : { awaiting }),
    ...(running === undefined ? {} : { running: compact(running) }),
    ...(member === undefined ? {} : { member }),
  };
}

export function isGated({ spec }: Pick<Pod, 'spec'>): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === preloadGateName) ?? false;
}

/** Pods of one template differ in nothing but their node: that is all that is kept of each. */
function compact({ labels, requests, hostPorts, repels, ...own }: RunningPod): RunningPod {
  return {
    ...own,
    labels: shared.of(labels) as RunningPod['labels'],
    requests: shared.of(requests) as RunningPod['requests'],
    hostPorts: shared.of(hostPorts) as RunningPod['hostPorts'],
    ...(repels === undefined ? {} : { repels: shared.of(repels) as RunningPod['repels'] }),
  };
}

function memberOf({ status, ...pod }: Pod): Member | undefined {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return undefined;
  const { metadata, spec } = pod;
  const preload = metadata?.annotations?.[preloadAnnotation] ?? '';
  const gated = isGated(pod);
  if (preload === '' && !gated) return undefined;
  return {
    namespace: metadata?.namespace ?? '',
    name: metadata?.name ?? '',
    uid: metadata?.uid ?? '',
    createdAt: Date.parse(metadata?.creationTimestamp ?? '') || 0,
    preload,
    node: spec?.nodeName ?? '',
    deleting: metadata?.deletionTimestamp !== undefined,
    gated: gated ? pod : undefined,
  };
}
