import { silentLogger } from '@hearth/common';
import { type KubernetesApi, kinds, type Pod, Reflector, resourceType } from '@hearth/common/kubernetes';
import { hostsOf, isGated, planOf, podObject } from '../../operator/src/gates/testing/gate_objects.ts';

const namespace = 'default';
const bindings = resourceType('', 'v1', 'bindings', 'Binding', 'Namespaced');
const podsPerOwner = 5;
/** From its open gate until a pod has ended, ms. */
const lifeMs = 30_000;

export interface Opened {
  /** When its creation was answered and when the watch reported its gate open, by `performance.now`. */
  created: number;
  opened: number;
}

/** Pods that are created behind gates at a steady rate, run for a while where they were sent, and end. */
export class GatedPods {
  readonly #api: KubernetesApi;
  readonly #watched: Reflector<Pod, { gated: boolean; host: string; plan: string }>;
  readonly #ending = new AbortController();
  readonly #created = new Map<string, number>();
  readonly #opened = new Map<string, number>();
  readonly #datasets: readonly string[];
  #timer: NodeJS.Timeout | undefined;
  #count = 0;
  /** Pods that no webhook gated. */
  ungated = 0;
  /** Errors of the API server. */
  readonly failures: string[] = [];

  constructor(api: KubernetesApi, datasets: readonly string[]) {
    this.#api = api;
    this.#datasets = datasets;
    this.#watched = new Reflector({
      api,
      type: kinds.Pod,
      namespace,
      project: (pod: Pod) => ({ gated: isGated(pod), host: hostsOf(pod)[0] ?? '', plan: planOf(pod) }),
      logger: silentLogger,
    });
    this.#watched.onChange((key, before, after) => {
      if (before?.gated !== true || after?.gated !== false) return;
      const name = key.slice(namespace.length + 1);
      this.#opened.set(name, performance.now());
      void this.#attempt(() => this.#run(name, after.host));
    });
  }

  async start(): Promise<void> {
    this.#watched.start(this.#ending.signal);
    await this.#watched.synced();
  }

  /** Creates pods until `pause`. */
  flow(perMinute: number): void {
    this.#timer = setInterval(() => void this.#attempt(() => this.#create()), 60_000 / perMinute);
  }

  pause(): void {
    clearInterval(this.#timer);
  }

  close(): void {
    this.pause();
    this.#ending.abort();
  }

  /** Creates a pod; its name. */
  async add(name: string, datasets: readonly string[]): Promise<string> {
    const pod = await this.#api.create(kinds.Pod, podObject(name, { datasets: [...datasets] }));
    this.#created.set(name, performance.now());
    return planOf(pod);
  }

  /** The name of the pod's CachePreload; empty without one. */
  planOf(name: string): string {
    return this.#watched.get(`${namespace}/${name}`)?.plan ?? '';
  }

  /** Pods that were created in this time and are open; by `performance.now`. */
  opened(from: number, to: number): Opened[] {
    return [...this.#created].flatMap(([name, created]) => {
      const opened = this.#opened.get(name);
      return opened === undefined || created < from || created > to ? [] : [{ created, opened }];
    });
  }

  /** The number of pods that were created in this time and still wait. */
  waiting(from: number, to: number): number {
    return [...this.#created].filter(([name, at]) => at >= from && at <= to && !this.#opened.has(name)).length;
  }

  /** The times at which gates opened. */
  get openings(): number[] {
    return [...this.#opened.values()];
  }

  async #create(): Promise<void> {
    const index = this.#count++;
    const name = `web-${index}`;
    const owner = Math.floor(index / podsPerOwner);
    const dataset = this.#datasets[(owner * 7) % this.#datasets.length] as string;
    const reference = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: `web-${owner}`, uid: `uid-${owner}` };
    const metadata = { name, namespace, ownerReferences: [{ ...reference, controller: true }] };
    const pod = await this.#api.create(kinds.Pod, podObject(name, { datasets: [dataset] }, { metadata }));
    if (isGated(pod)) this.#created.set(name, performance.now());
    else this.ungated++;
  }

  /** As the scheduler and a kubelet do. */
  async #run(name: string, host: string): Promise<void> {
    if (host !== '') {
      const binding = { metadata: { name, namespace }, target: { kind: 'Node', name: host } };
      await this.#api.create(bindings, binding);
      const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
      await this.#api.patch(kinds.Pod, name, namespace, { status }, { kind: 'merge', subresource: 'status' });
    }
    setTimeout(() => {
      void this.#attempt(() => this.#api.delete(kinds.Pod, name, namespace, { gracePeriodSeconds: 0 }));
    }, lifeMs).unref();
  }

  async #attempt(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!this.#ending.signal.aborted) this.failures.push(String(error));
    }
  }
}
