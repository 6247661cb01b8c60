import type { Pod } from '@hearth/common/kubernetes';
import { preloadAnnotation, preloadGateName } from '@hearth/common/resources';
import { type Uses, usesOfPod } from '../dataset/index.ts';
import { type PodMounts, podMounts } from '../kubernetes/index.ts';
import { type RunningPod, runningPod } from '../planner/index.ts';
import { type AwaitingPod, awaitingPod } from '../waiting/index.ts';

/** The projection of a pod, small since there may be hundreds of thousands. */
export interface PodView {
  uses: Uses;
  mounts?: PodMounts;
  awaiting?: AwaitingPod;
  running?: RunningPod;
  member?: Member;
}

/** A pod, not yet ended, that is or was gated. */
export interface Member {
  namespace: string;
  name: string;
  uid: string;
  createdAt: number;
  /** Name of its CachePreload; empty when another client added our gate. */
  preload: string;
  node: string;
  deleting: boolean;
  /** The pod without its status, while it has our gate. */
  gated: Pod | undefined;
}

/** Shares equal JSON values, such as labels of pods of one controller. Shared values must not change. */
class Interned<T extends object> {
  readonly #known = new Map<string, WeakRef<T>>();
  readonly #forget = new FinalizationRegistry<string>((key) => {
    if (this.#known.get(key)?.deref() === undefined) this.#known.delete(key);
  });

  of(value: T): T {
    const key = JSON.stringify(value);
    const known = this.#known.get(key)?.deref();
    if (known !== undefined) return known;
    this.#known.set(key, new WeakRef(value));
    this.#forget.register(value, key);
    return value;
  }
}

const shared = new Interned<object>();

/** Undefined for pods without interest to any controller. */
export function podView(pod: Pod): PodView | undefined {
  const uses = usesOfPod(pod);
  const running = runningPod(pod);
  const member = memberOf(pod);
  if (running === undefined && member === undefined && uses.size === 0) return undefined;
  const awaiting = uses.size === 0 ? undefined : awaitingPod(pod);
  const mounts = podMounts(pod);
  return {
    uses,
    ...(mounts === undefined ? {} : { mounts }),
    ...(awaiting === undefined ? {} : { awaiting }),
    ...(running === undefined ? {} : { running: compact(running) }),
    ...(member === undefined ? {} : { member }),
  };
}

export function isGated({ spec }: Pick<Pod, 'spec'>): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === preloadGateName) ?? false;
}

/** Shares everything but the node among pods of one template. */
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
