import { randomUUID } from 'node:crypto';
import { HearthError, type Logger } from '@hearth/common';
import { type Clock, systemClock } from '@hearth/common/kubernetes';
import { type AdmissionRequest, readReview, reviewOf } from './admission_review.ts';
import { admit, isExempt } from './admit.ts';
import type { Facts } from './facts.ts';
import type { WebhookMetrics } from './webhook_metrics.ts';

export interface WebhookOptions {
  facts: Pick<Facts, 'of'>;
  metrics: WebhookMetrics;
  logger: Logger;
  /** Names pods without a group; absent: chance. */
  random?: () => string;
  clock?: Clock;
}

const nothing = { patch: [], warnings: [] };
/** Reviews at the same time; API servers themselves admit a few hundred changes at a time. */
const maxAtOnce = 1_000;

/** Answers reviews of pods that are being made. */
export class Webhook {
  readonly #options: WebhookOptions;
  #running = 0;

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  /**
   * The answer to a review, within the budget. Whatever goes wrong, the pod is admitted as it is: it then runs cold, which
   * is better than not at all. Throws only `InvalidArgument`, for what is no review.
   */
  async answer(body: unknown, budgetMs: number): Promise<object> {
    const { metrics, logger, clock = systemClock } = this.#options;
    const request = readReview(body);
    const began = clock.now();
    if (this.#running >= maxAtOnce) {
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

/** The work, or a rejection at the end of the time, though the work does not heed it. */
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
