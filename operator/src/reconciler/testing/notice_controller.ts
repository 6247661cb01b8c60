import type { Logger } from '@hearth/common';
import {
  type Applied,
  type ConfigMap,
  type EventRecorder,
  type KubernetesClient,
  type KubernetesObject,
  kinds,
  objectKey,
  ownerReference,
  ownKey,
  resourceType,
  runController,
  splitKey,
  WorkQueue,
  watch,
} from '@hearth/common/kubernetes';
import type { Condition } from '@hearth/common/resources';
import type { Source } from '../../kubernetes/index.ts';
import { type DesiredStatus, type ObjectReconciler, reconcileObject } from '../index.ts';

/** A text that is to be in a ConfigMap of the same name. */
export interface Notice extends KubernetesObject {
  spec: { text: string };
  status?: { observedGeneration?: number; conditions?: Condition[] };
}
export const noticeType = resourceType<Notice>('example.hearth.storage', 'v1', 'notices', 'Notice', 'Namespaced');

export interface NoticeControllerOptions {
  api: Pick<KubernetesClient, 'apply' | 'patch'>;
  /** Reflectors, which run already. */
  notices: Source<Notice>;
  configMaps: Source<ConfigMap>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}

type Observed = { present: ConfigMap | undefined };
type Action = { kind: 'write'; object: Applied<ConfigMap> };

export class NoticeReconciler implements ObjectReconciler<Notice, Observed, Action> {
  readonly type = noticeType;
  readonly #options: NoticeControllerOptions;

  constructor(options: NoticeControllerOptions) {
    this.#options = options;
  }

  /** All reading is here, and nothing is decided. */
  async observe(notice: Notice): Promise<Observed> {
    return { present: this.#options.configMaps.get(objectKey(notice)) };
  }

  /** All deciding is here, and nothing is read or done: a test needs no API. */
  plan(notice: Notice, { present }: Observed): Action[] {
    const { text } = notice.spec;
    if (present?.data?.text === text) return [];
    const metadata = { ...splitKey(objectKey(notice)), ownerReferences: [ownerReference(noticeType, notice)] };
    return [{ kind: 'write', object: { metadata, data: { text } } }];
  }

  /** The same action twice does what it does once. An error appears in the conditions, and the queue tries again. */
  async apply({ object }: Action, _notice: Notice, signal: AbortSignal): Promise<void> {
    await this.#options.api.apply(kinds.ConfigMap, object, { signal });
  }

  status(): DesiredStatus<Notice> {
    return {
      conditions: [{ type: 'Ready', status: 'True', reason: 'Written', message: 'Its ConfigMap has the text' }],
    };
  }
}

/** Runs the reconciler of Notices, on the leader only, until the signal aborts. */
export async function runNoticeController(options: NoticeControllerOptions, signal: AbortSignal): Promise<void> {
  const { api, notices, configMaps, events, logger } = options;
  const reconciler = new NoticeReconciler(options);
  await runController({
    name: 'notices',
    queue: new WorkQueue({ firstDelayMs: 100, longestDelayMs: 60_000 }),
    workers: 2,
    // A Notice that changes, and one whose ConfigMap, which has the same name, does.
    watches: [watch(notices, ownKey), watch(configMaps, ownKey)],
    first: () => notices.keys(),
    reconcile: reconcileObject({ reconciler, api, objects: notices, events, logger }),
    logger,
    signal,
  });
}
