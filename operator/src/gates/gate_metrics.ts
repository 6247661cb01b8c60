import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client';
import { type Release, releases, warmReasons } from './group_action.ts';

export interface ReleasedGroup {
  reason: Release;
  waited: readonly number[];
  /** Bytes that the first plan found on its nodes, and bytes that agents then fetched. */
  presentBytes: number;
  fetchedBytes: number;
}

/** Metrics of gates. Only the leader counts. */
export class GateMetrics {
  readonly #wait: Histogram<'reason'>;
  readonly #released: Counter<'reason'>;
  readonly #avoided: Counter;
  readonly #present: Counter;
  readonly #brought: Counter;

  constructor(registry: Registry, waiting: () => number) {
    const registers = [registry];
    this.#wait = new Histogram({
      name: 'hearth_gate_wait_seconds',
      help: 'Time from the creation of a pod, in whole seconds, until the removal of its gate.',
      labelNames: ['reason'],
      buckets: [0.5, 1, 2, 5, 15, 60, 180, 600, 1800, 7200],
      registers,
    });
    this.#released = new Counter({
      name: 'hearth_gate_released_total',
      help: 'Released pods, by reason: Warm, Prefer, TimedOut, NoFreeNode, NoFeasibleNode, NoRoom, NoAgent, NoDataset, Off, Withdrawn, NoPlan.',
      labelNames: ['reason'],
      registers,
    });
    this.#avoided = new Counter({
      name: 'hearth_gate_cold_starts_avoided_total',
      help: 'Pods that started on planned nodes after the bytes had arrived.',
      registers,
    });
    this.#present = new Counter({
      name: 'hearth_gate_present_bytes_total',
      help: 'Bytes that plans found on their nodes, and so saved.',
      registers,
    });
    this.#brought = new Counter({
      name: 'hearth_gate_brought_bytes_total',
      help: 'Bytes that plans found missing and agents fetched before the release. Each plan counts shared bytes.',
      registers,
    });
    new Gauge({
      name: 'hearth_gate_waiting_pods',
      help: 'Pods that wait behind a gate.',
      registers,
      collect() {
        this.set(waiting());
      },
    });
    // Each series starts at 0, so that Prometheus sees its first increment.
    for (const reason of releases) {
      this.#wait.zero({ reason });
      this.#released.inc({ reason }, 0);
    }
  }

  released({ reason, waited, presentBytes, fetchedBytes }: ReleasedGroup): void {
    for (const seconds of waited) this.#wait.observe({ reason }, seconds);
    this.#released.inc({ reason }, waited.length);
    if (!warmReasons.has(reason)) return;
    this.#present.inc(presentBytes);
    if (reason !== 'Warm') return;
    this.#brought.inc(fetchedBytes);
    this.#avoided.inc(waited.length);
  }
}
