import { randomUUID } from 'node:crypto';
import { HearthError, type Logger } from '@hearth/common';
import { type Clock, type Pod, systemClock } from '@hearth/common/kubernetes';
import { Counter, Gauge, Histogram, type Registry } from '@prometheus-io/client';
import { type Admission, admit, isExempt } from './admit.ts';
import type { Facts } from './facts.ts';

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
      help: 'Reviews of new pods, by result: gated, provisional, unchanged, late or failed.',
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
      help: 'Expiry of the webhook certificate, seconds since the epoch; 0 without a certificate.',
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

export interface WebhookOptions {
  facts: Pick<Facts, 'of'>;
  metrics: WebhookMetrics;
  logger: Logger;
  random?: () => string;
  clock?: Clock;
}

const nothing = { patch: [], warnings: [] };
/** Concurrent reviews; API servers admit a few hundred changes at a time. */
const maxConcurrent = 1_000;

export class Webhook {
  readonly #options: WebhookOptions;
  #running = 0;

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  /**
   * Answers within the budget. Admits the pod unchanged on any failure, since a cold start is better than none. Throws
   * only `InvalidArgument`, for malformed reviews.
   */
  async answer(body: unknown, budgetMs: number): Promise<object> {
    const { metrics, logger, clock = systemClock } = this.#options;
    const request = readReview(body);
    const began = clock.now();
    if (this.#running >= maxConcurrent) {
      metrics.answered('late', 0);
      return reviewOf(request.uid, nothing);
    }
    this.#running += 1;
    const timeout = new AbortController();
    const cancelTimeout = clock.schedule(Math.max(1, budgetMs), () => timeout.abort());
    const ending = timeout.signal;
    try {
      const admission = await during(this.#admit(request, ending), ending);
      metrics.answered(admission.result, clock.now() - began);
      return reviewOf(request.uid, admission);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      const late = ending.aborted;
      metrics.answered(late ? 'late' : 'failed', clock.now() - began);
      const { namespace, pod } = request;
      const name = pod?.metadata?.name ?? pod?.metadata?.generateName;
      logger.warn('admitted a pod without a gate: failed to resolve its volumes', { namespace, name, late, error });
      return reviewOf(request.uid, nothing);
    } finally {
      cancelTimeout();
      this.#running -= 1;
    }
  }

  async #admit({ pod, namespace, operation }: AdmissionRequest, signal: AbortSignal) {
    if (pod === undefined || operation !== 'CREATE' || namespace === '' || isExempt(pod)) {
      return { result: 'unchanged' as const, ...nothing };
    }
    const { facts, random = randomUUID } = this.#options;
    return admit(pod, namespace, await facts.of(pod, namespace, signal), random());
  }
}

/** Rejects at the end of the time, even if the work ignores the signal. */
async function during<T>(work: Promise<T>, ending: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const end = () => reject(new HearthError('DeadlineExceeded', 'the time of the review is over'));
  ending.addEventListener('abort', end, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    ending.removeEventListener('abort', end);
  }
}

/** The used fields of an AdmissionReview (admission.k8s.io/v1). */
interface AdmissionRequest {
  uid: string;
  namespace: string;
  operation: string;
  /** Undefined for other kinds. */
  pod: Pod | undefined;
}

/** Throws `InvalidArgument` for a review without a uid, which cannot be answered. */
function readReview(body: unknown): AdmissionRequest {
  const review = body as { apiVersion?: unknown; kind?: unknown; request?: Record<string, unknown> } | null;
  const request = review?.request;
  if (review?.kind !== 'AdmissionReview' || review.apiVersion !== 'admission.k8s.io/v1' || !request) {
    throw new HearthError('InvalidArgument', 'the body is no AdmissionReview of admission.k8s.io/v1');
  }
  const { uid, namespace, operation, resource, subResource, object } = request as Record<string, unknown> & {
    resource?: { group?: string; resource?: string };
  };
  if (typeof uid !== 'string' || uid === '') {
    throw new HearthError('InvalidArgument', 'the AdmissionReview has no uid');
  }
  const isPods = resource?.group === '' && resource.resource === 'pods' && !subResource;
  const isObject = typeof object === 'object' && object !== null && !Array.isArray(object);
  return {
    uid,
    namespace: typeof namespace === 'string' ? namespace : '',
    operation: typeof operation === 'string' ? operation : '',
    pod: isPods && isObject ? (object as Pod) : undefined,
  };
}

/** The API server truncates longer warnings. */
const longestWarning = 256;

/** Hearth allows every pod. */
function reviewOf(uid: string, { patch, warnings }: Pick<Admission, 'patch' | 'warnings'>): object {
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: {
      uid,
      allowed: true,
      ...(patch.length === 0
        ? {}
        : { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') }),
      ...(warnings.length === 0 ? {} : { warnings: warnings.map((one) => one.slice(0, longestWarning)) }),
    },
  };
}
