import { type Logger, silentLogger } from '@hearth/common';
import { EventRecorder, type KubernetesApi } from '@hearth/common/kubernetes';
import { apiOf } from '@hearth/common/testing/kubernetes';

/** The parts that every controller of the operator gets. */
export interface ControllerParts {
  api: KubernetesApi;
  events: EventRecorder;
  logger: Logger;
  /** Ends it. */
  signal: AbortSignal;
}

/** Controllers of the operator, as one replica that leads runs them, until they are stopped. */
export class RunningControllers {
  readonly #api: KubernetesApi;
  readonly #events: EventRecorder;
  readonly #stop = new AbortController();
  readonly #running: Promise<unknown>;

  /** `kubeconfig`: whom they are to be for the API server. */
  constructor(kubeconfig: string, run: (parts: ControllerParts) => Promise<unknown>) {
    const api = apiOf(kubeconfig);
    const logger = silentLogger;
    const events = new EventRecorder({ api, component: 'hearth-operator', instance: 'test', logger });
    const { signal } = this.#stop;
    this.#api = api;
    this.#events = events;
    this.#running = run({ api, events, logger, signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#events.close();
    this.#api.close();
  }
}
