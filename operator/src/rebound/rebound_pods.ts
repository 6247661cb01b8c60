import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { HearthError } from '@hearth/common';
import type { Capability, NodeStatus, PodReference } from '@hearth/common/generated/hearth/v1/control.ts';
import { coreEvent, type KubernetesClient, kinds, type ReconcileResult } from '@hearth/common/kubernetes';
import type { NodeCache, ReboundPod } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { Place, Source } from '../kubernetes/index.ts';

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

/** Those that a NodeCache remembers. */
const maxListed = 512;
/** When a NodeCache that is not there yet is looked for again, ms. */
const lookAgainMs = 5_000;

/**
 * Reports to pods whose mounts died that they must be restarted: each by one event for each time that it happened. Who
 * was notified stands in the NodeCache; the event of a rebinding has a name that only this rebinding gives, so that a
 * pod is not notified twice where an operator ends between the two. What the API server refuses is tried again until it
 * takes it, or the pod has ended.
 */
export class ReboundPods {
  readonly #options: ReboundPodsOptions;

  constructor(options: ReboundPodsOptions) {
    this.#options = options;
  }

  /** `node` names the NodeCache too. Errors of the API, after all others were notified. */
  async reconcile(node: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { agents, caches, placeOf } = this.#options;
    const status = agents.get(placeOf(node)?.cluster ?? '')?.status;
    const volumes = status?.connected === true ? volumesOf(status.nodes.get(node)) : undefined;
    // Nothing is known of the node's pods, as after a start of its agent.
    if (volumes === undefined) return {};
    // Without an id the event would not be found.
    const found = volumes.pods.filter(({ uid }) => uid !== '').map(reboundPod);
    const named = [...new Map(found.map((pod) => [keyOf(pod), pod])).values()];
    const cache = caches.get(node);
    if (cache === undefined) return named.length === 0 ? {} : { requeueAfterMs: lookAgainMs };
    const before = new Map((cache.status?.reboundPods ?? []).map((pod) => [keyOf(pod), pod]));
    const reported: ReboundPod[] = [];
    const failures: unknown[] = [];
    for (const pod of named) {
      try {
        if (!wasReported(before, pod)) await this.#report(pod, signal);
        reported.push(pod);
      } catch (thrown) {
        failures.push(thrown);
      }
    }
    await this.#remember(cache, [...reported, ...notNamed(before, named, volumes)].slice(0, maxListed), signal);
    if (failures.length > 0) throw failures[0];
    return {};
  }

  async #report(pod: ReboundPod, signal: AbortSignal): Promise<void> {
    const { api, instance } = this.#options;
    const now = api.date();
    const { namespace, name, uid } = pod;
    const regarding = { apiVersion: 'v1', kind: 'Pod', namespace, name, uid };
    const times = { count: 1, first: now, last: now };
    const id = createHash('sha256').update(keyOf(pod)).digest('hex').slice(0, 16);
    const occurrence = { regarding, type: 'Warning', reason: 'VolumeRebound', message, ...times } as const;
    try {
      await api.create(kinds.CoreEvent, coreEvent(occurrence, id, 'hearth-operator', instance), signal);
    } catch (thrown) {
      if (HearthError.from(thrown).code !== 'AlreadyExists') throw thrown;
    }
  }

  async #remember({ metadata, status }: NodeCache, reported: ReboundPod[], signal: AbortSignal): Promise<void> {
    if (isDeepStrictEqual(reported, status?.reboundPods ?? [])) return;
    const patch = { status: { reboundPods: reported.length === 0 ? null : reported } };
    const options = { kind: 'merge', subresource: 'status', signal } as const;
    await this.#options.api.patch(kinds.NodeCache, metadata.name, undefined, patch, options);
  }
}

/** What an agent says of the volumes of its node; undefined before it has looked. */
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

/**
 * Agents of the release before do not say when: what they name is what others name of the same pod. Who reports a node
 * may change at any time.
 */
function wasReported(before: ReadonlyMap<string, ReboundPod>, pod: ReboundPod): boolean {
  if (before.has(keyOf(pod))) return true;
  return [...before.values()].some(({ uid, at }) => uid === pod.uid && (at === '' || pod.at === ''));
}

/** Those that an agent left out for want of room are not notified again when they are named again. */
function notNamed(before: ReadonlyMap<string, ReboundPod>, named: ReboundPod[], volumes: Capability): ReboundPod[] {
  if (volumes.podsLeftOut === 0) return [];
  const keys = new Set(named.map(keyOf));
  return [...before].filter(([key]) => !keys.has(key)).map(([, pod]) => pod);
}
