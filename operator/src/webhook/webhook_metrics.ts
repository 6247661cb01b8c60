import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client';
import type { Admission } from './admit.ts';

/** How a review ended: as it should, too late, or by an error. The pod was admitted in any case. */
export type ReviewResult = Admission['result'] | 'late' | 'failed';

/** Every result; the compiler finds one that is missing. */
const results = Object.keys({
  gated: true,
  provisional: true,
  unchanged: true,
  late: true,
  failed: true,
} satisfies Record<ReviewResult, true>) as readonly ReviewResult[];

/** Metrics of this replica's webhook for Prometheus. */
export class WebhookMetrics {
  readonly #reviews: Counter<'result'>;
  readonly #seconds: Histogram;

  /** `expiry`: seconds since the epoch when the certificate ends; undefined while there is none. */
  constructor(registry: Registry, expiry: () => number | undefined) {
    const registers = [registry];
    this.#reviews = new Counter({
      name: 'hearth_webhook_reviews_total',
      help: 'Pods that were looked at when they were made: gated, provisional, unchanged, late or failed.',
      labelNames: ['result'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'hearth_webhook_review_seconds',
      help: 'Time to answer a review.',
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 1, 2],
      registers,
    });
    new Gauge({
      name: 'hearth_webhook_certificate_expiry_seconds',
      help: "When the webhook's certificate ends, seconds since the epoch; 0: there is none.",
      registers,
      collect() {
        this.set(expiry() ?? 0);
      },
    });
    // Prometheus sees no growth in a series that begins with its first event.
    for (const result of results) this.#reviews.inc({ result }, 0);
  }

  answered(result: ReviewResult, ms: number): void {
    this.#reviews.inc({ result });
    this.#seconds.observe(ms / 1000);
  }
}
