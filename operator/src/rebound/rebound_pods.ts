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
  placeOf: (node: string) => Place | undefined;
  instance: string;
}

const message =
  'A volume of this pod lost its mount, because the agent and the mount holder of the node ended at once, and was bound again. ' +
  'Restart the pod, unless its containers mount the volume with mountPropagation HostToContainer and open their files again';

/** The limit of the CRD. */
const maxListed = 512;
/** The retry while a NodeCache is missing, ms. */
const recheckMs = 5_000;

export interface ObservedRebounds {
  cache: NodeCache | undefined;
  /** Undefined before the agent's first look at its volumes. */
  volumes: Capability | undefined;
}

/** Sends events for `report`, then stores `remember` without the failed ones. */
export type ReboundAction = { cache: NodeCache; report: readonly ReboundPod[]; remember: readonly ReboundPod[] };

/**
 * Sends each pod one event for each rebinding. The NodeCache remembers reported pods, and the event's name is a digest
 * of the rebinding, so a restarted operator creates no second event. Retries refused events until the pod ends. Keys
 * are names of nodes, and of their NodeCaches.
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
    return waits ? recheckMs : undefined;
  }

  /** Throws the first failure after every other report. */
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

export function volumesOf(agent: Pick<NodeStatus, 'capabilities'> | undefined): Capability | undefined {
  return agent?.capabilities.find(({ name }) => name === 'volumes');
}

const reboundPod = ({ reboundAt: at, namespace, name, uid }: PodReference): ReboundPod => ({
  namespace,
  name,
  uid,
  at,
});
const keyOf = ({ uid, at }: ReboundPod) => `${uid} ${at}`;

/** Unique pods. Events need a uid. */
function namedPods({ pods }: Capability): ReboundPod[] {
  const found = pods.filter(({ uid }) => uid !== '').map(reboundPod);
  return [...new Map(found.map((pod) => [keyOf(pod), pod])).values()];
}

function isRemembered({ status }: NodeCache, pods: readonly ReboundPod[]): boolean {
  return isDeepStrictEqual(pods.slice(0, maxListed), status?.reboundPods ?? []);
}

/** Agents of the previous release send no time, so an empty time matches every time of the pod. */
function wasReported(before: ReadonlyMap<string, ReboundPod>, pod: ReboundPod): boolean {
  if (before.has(keyOf(pod))) return true;
  return [...before.values()].some(({ uid, at }) => uid === pod.uid && (at === '' || pod.at === ''));
}

/** Remembers pods beyond the agent's limit, so that they get no second event. */
function notNamed(before: ReadonlyMap<string, ReboundPod>, named: ReboundPod[], volumes: Capability): ReboundPod[] {
  if (volumes.podsLeftOut === 0) return [];
  const keys = new Set(named.map(keyOf));
  return [...before].filter(([key]) => !keys.has(key)).map(([, pod]) => pod);
}
