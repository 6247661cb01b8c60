import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { type EventRecorder, kinds } from '@hearth/common/kubernetes';

const message =
  'A volume of this pod lost its mount, because the agent and the mount holder of the node ended at once, and was bound again. ' +
  'Restart the pod, unless its containers mount the volume with mountPropagation HostToContainer and open their files anew';

/** Tells pods whose mounts died that they must be restarted: each once, as long as an agent names it. */
export class ReboundPods {
  readonly #events: Pick<EventRecorder, 'eventFor'>;
  /** By node: ids of the pods that were told. */
  readonly #told = new Map<string, Set<string>>();

  constructor(events: Pick<EventRecorder, 'eventFor'>) {
    this.#events = events;
  }

  /** `agent` undefined: nothing is known of the node's pods. */
  tell(node: string, agent: NodeStatus | undefined): void {
    if (agent === undefined) return;
    const before = this.#told.get(node);
    const now = new Set<string>();
    for (const { namespace, name, uid } of podsOf(agent)) {
      if (uid === '') continue; // an event is found by it
      now.add(uid);
      if (before?.has(uid)) continue;
      this.#events.eventFor(kinds.Pod, { metadata: { namespace, name, uid } }, 'Warning', 'VolumeRebound', message);
    }
    if (now.size > 0) this.#told.set(node, now);
    else this.#told.delete(node);
  }

  forget(node: string): void {
    this.#told.delete(node);
  }
}

/** Pods of an agent's node whose mounts died and were bound again. */
export const podsOf = (agent: Pick<NodeStatus, 'capabilities'> | undefined) =>
  agent?.capabilities.find(({ name }) => name === 'volumes')?.pods ?? [];
