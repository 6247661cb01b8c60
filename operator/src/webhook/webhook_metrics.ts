import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client';

/** Results of reviews. Also `late` and `failed` admit the pod. */
const results = ['gated', 'provisional', 'unchanged', 'late', 'failed'] as const;

/** Metrics of this replica's webhook. */
export class WebhookMetrics {
  readonly #reviews: Counter<'result'>;
  readonly #seconds: Histogram;

  /** `expiry`: expiry of the certificate, seconds since the epoch; undefined without one. */
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
    // Each series starts at 0, so that Prometheus sees its first increment.
    for (const result of results) this.#reviews.inc({ result }, 0);
  }

  answered(result: (typeof results)[number], ms: number): void {
    this.#reviews.inc({ result });
    this.#seconds.observe(ms / 1000);
  }
}
