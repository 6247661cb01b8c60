import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { type CachePreload, preloadPhases } from '@hearth/common/resources';
import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client';

/** Metrics of CachePreloads. Only the leader counts. */
export class PreloadMetrics {
  readonly #bytes: Counter<'from'>;
  readonly #seconds: Histogram;

  constructor(registry: Registry, preloads: () => readonly CachePreload[]) {
    const registers = [registry];
    this.#bytes = new Counter({
      name: 'hearth_preload_bytes_total',
      help: 'Bytes that warm jobs of CachePreloads fetched, from origins or from peers.',
      labelNames: ['from'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'hearth_preload_ready_seconds',
      help: 'Time from the creation of a CachePreload until it was complete.',
      buckets: [1, 2, 5, 15, 60, 180, 600, 1800, 7200, 28_800],
      registers,
    });
    new Gauge({
      name: 'hearth_preload_objects',
      help: 'CachePreloads, by phase.',
      labelNames: ['phase'],
      registers,
      collect() {
        for (const phase of preloadPhases) this.set({ phase }, 0);
        for (const { status } of preloads()) this.inc({ phase: status?.phase ?? 'Pending' });
      },
    });
  }

  /** Counts the bytes since the message before; without `before` only for a new job. */
  moved(job: WarmJob, before: WarmJob | undefined): void {
    if (before?.createdAt !== job.createdAt) return;
    for (const node of job.nodes) {
      const known = before.nodes.find((one) => one.node === node.node);
      this.#add('origin', node.originBytes - (known?.originBytes ?? 0n));
      this.#add('peers', node.peerBytes - (known?.peerBytes ?? 0n));
    }
  }

  ready(seconds: number): void {
    this.#seconds.observe(Math.max(0, seconds));
  }

  /** A part that starts again counts from zero. */
  #add(from: 'origin' | 'peers', bytes: bigint): void {
    if (bytes > 0n) this.#bytes.inc({ from }, Number(bytes));
  }
}
