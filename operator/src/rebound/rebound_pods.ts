import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { ignoring } from '@hearth/common';
import type { Capability, NodeStatus, PodReference } from '@hearth/common/generated/hearth/v1/control.ts';
import { coreEvent, type KubernetesClient, kinds, runController, watch } from '@hearth/common/kubernetes';
import type { NodeCache, ReboundPod } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { Place, Source } from '../kubernetes/index.ts';
import { type ControllerParts, type Reconciler, reconcileKey } from '../reconciler/index.ts';

export interface ReboundPodsOptions {
  api: Pick<KubernetesClient, 'create' | 'patch' | 'date'>;
  agents: Pick<Agents, 'get'>;
  caches: Source<NodeCache>;
  /** The group that a node belongs to now. */
  placeOf: (node: string) => Place | undefined;
  /** The replica. */
  instance: string;
}

const message =
  'A volume of this pod lost its mount, because the agent and the mount holder of the node ended at once, and was bound again. ' +
  'Restart the pod, unless its containers mount the volume with mountPropagation HostToContainer and open their files again';

/** The number of pods that a NodeCache remembers. */
const maxListed = 512;
/** When a NodeCache that is not there yet is looked for again, ms. */
const lookAgainMs = 5_000;

export interface ObservedRebounds {
  cache: NodeCache | undefined;
  /** The agent's report on the volumes of its node; undefined: it has not looked, as after its start. */
  volumes: Capability | undefined;
}

/** Reports pods, and then what the NodeCache remembers: all but those that could not be reported. */
export type ReboundAction = { cache: NodeCache; report: readonly ReboundPod[]; remember: readonly ReboundPod[] };

/**
 * Reports to pods whose mounts died that they must be restarted: each by one event for each time that it happened. Which were
 * reported stands in the NodeCache; the event of a rebinding has a name that only this rebinding gives, so that a pod is not
 * reported twice where an operator ends between the two. What the API server refuses is tried again until it takes it, or
 * the pod has ended. By the name of the node, which is that of the NodeCache too.
 */
export class ReboundPods implements Reconciler<string, ObservedRebounds, ReboundAction> {
  readonly #options: ReboundPodsOptions;

  constructor(options: ReboundPodsOptions) {
    this.#options = options;
  }

  async observe(node: string): Promise<ObservedRebounds> {
    const { agents, caches, placeOf } = this.#options;
    const status = agents.get(placeOf(node)?.cluster ?? '')?.status;
    const volumes = status?.connected === true ? volumesOf(status.nodes.get(node)) : undefined;
    return { cache: caches.get(node), volumes };
  }

  plan(_node: string, { cache, volumes }: ObservedRebounds): ReboundAction[] {
    if (cache === undefined || volumes === undefined) return [];
    const named = namedPods(volumes);
    const before = new Map((cache.status?.reboundPods ?? []).map((pod) => [keyOf(pod), pod]));
    const report = named.filter((pod) => !wasReported(before, pod));
    const remember = [...named, ...notNamed(before, named, volumes)];
    return isRemembered(cache, remember) ? [] : [{ cache, report, remember }];
  }

  requeueAfterMs(_node: string, { cache, volumes }: ObservedRebounds): number | undefined {
    const waits = cache === undefined && volumes !== undefined && namedPods(volumes).length > 0;
    return waits ? lookAgainMs : undefined;
  }

  /** Throws what the API server refused after all others were reported. */
  async apply({ cache, report, remember }: ReboundAction, node: string, signal: AbortSignal): Promise<void> {
    const failures = new Map<ReboundPod, unknown>();
    for (const pod of report) {
      await this.#report(pod, signal).catch((thrown) => failures.set(pod, thrown));
    }
    const reported = remember.filter((pod) => !failures.has(pod)).slice(0, maxListed);
    if (!isRemembered(cache, reported)) {
      const patch = { status: { reboundPods: reported.length === 0 ? null : reported } };
      const options = { kind: 'merge', subresource: 'status', signal } as const;
      await this.#options.api.patch(kinds.NodeCache, node, undefined, patch, options);
    }
    const [failure] = failures.values();
    if (failure !== undefined) throw failure;
  }

  async #report(pod: ReboundPod, signal: AbortSignal): Promise<void> {
    const { api, instance } = this.#options;
    const now = api.date();
    const { namespace, name, uid } = pod;
    const regarding = { apiVersion: 'v1', kind: 'Pod', namespace, name, uid };
    const times = { count: 1, first: now, last: now };
    const id = createHash('sha256').update(keyOf(pod)).digest('hex').slice(0, 16);
    const occurrence = { regarding, type: 'Warning', reason: 'VolumeRebound', message, ...times } as const;
    const event = coreEvent(occurrence, id, 'hearth-operator', instance);
    await api.create(kinds.CoreEvent, event, signal).catch(ignoring('AlreadyExists'));
  }
}

/** Reports to pods whose mounts died until the signal aborts. */
export async function runReboundController(
  parts: ControllerParts & Pick<ReboundPodsOptions, 'instance'>,
  signal: AbortSignal,
): Promise<void> {
  const { agents, nodes, caches, placements, logger } = parts;
  const reconciler = new ReboundPods({ ...parts, placeOf: (node) => placements.placeOf(node) });
  await runController({
    name: 'reboundpods',
    workers: 4,
    watches: [
      watch(caches, (name, before, after) => (before === undefined && after !== undefined ? [name] : [])),
      watch(agents, (cluster, before, after) =>
        placements.nodesOf(cluster).filter((node) => {
          const [was, is] = [before, after].map((status) => volumesOf(status?.nodes.get(node)));
          const again = before?.connected !== after?.connected;
          return is !== undefined && (again || !isDeepStrictEqual(was, is));
        }),
      ),
    ],
    reads: [placements],
    first: () => nodes.keys(),
    reconcile: reconcileKey(reconciler, (node) => node),
    logger,
    signal,
  });
}

/** An agent's report on the volumes of its node; undefined before it has looked. */
export function volumesOf(agent: Pick<NodeStatus, 'capabilities'> | undefined): Capability | undefined {
  return agent?.capabilities.find(({ name }) => name === 'volumes');
}

const reboundPod = ({ namespace, name, uid, reboundAt }: PodReference): ReboundPod => ({
  namespace,
  name,
  uid,
  at: reboundAt,
});
const keyOf = ({ uid, at }: ReboundPod) => `${uid} ${at}`;

/** Each once. Without an id no pod would find the event. */
function namedPods({ pods }: Capability): ReboundPod[] {
  const found = pods.filter(({ uid }) => uid !== '').map(reboundPod);
  return [...new Map(found.map((pod) => [keyOf(pod), pod])).values()];
}

function isRemembered({ status }: NodeCache, pods: readonly ReboundPod[]): boolean {
  return isDeepStrictEqual(pods.slice(0, maxListed), status?.reboundPods ?? []);
}

/**
 * Agents of the release before do not say when: what they name is what others name of the same pod. Who reports a node
 * may change at any time.
 */
function wasReported(before: ReadonlyMap<string, ReboundPod>, pod: ReboundPod): boolean {
  if (before.has(keyOf(pod))) return true;
  return [...before.values()].some(({ uid, at }) => uid === pod.uid && (at === '' || pod.at === ''));
}

/** Pods that an agent left out for want of room get no second notice when it names them again. */
function notNamed(before: ReadonlyMap<string, ReboundPod>, named: ReboundPod[], volumes: Capability): ReboundPod[] {
  if (volumes.podsLeftOut === 0) return [];
  const keys = new Set(named.map(keyOf));
  return [...before].filter(([key]) => !keys.has(key)).map(([, pod]) => pod);
}
