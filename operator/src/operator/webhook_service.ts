import { HearthError, type Logger } from '@hearth/common';
import { type Clock, type KubernetesClient, type Secret, systemClock } from '@hearth/common/kubernetes';
import type { Registry } from '@prometheus-io/client';
import { secretTexts } from '../kubernetes/index.ts';
import { Facts, Webhook, WebhookMetrics, WebhookServer, webhookName } from '../webhook/index.ts';
import type { Reflectors } from './reflectors.ts';

export interface WebhookServiceOptions {
  api: Pick<KubernetesClient, 'get'>;
  namespace: string;
  reflectors: Pick<Reflectors, 'claims' | 'volumes' | 'datasets' | 'secrets'>;
  registry: Registry;
  logger: Logger;
  clock?: Clock;
}

/** The webhook of a replica, leader or not, with the certificate from the Secret that the leader maintains. */
export class WebhookService {
  readonly #server: WebhookServer;
  readonly #stop: () => void;
  readonly #clock: Clock;

  constructor(options: WebhookServiceOptions) {
    const { api, namespace, reflectors, registry, logger: parent, clock = systemClock } = options;
    this.#clock = clock;
    const logger = parent.child({ server: 'webhook' });
    const { claims, volumes, datasets, secrets } = reflectors;
    const metrics = new WebhookMetrics(registry, () => {
      const expiresAt = this.#server.expiresAt;
      return expiresAt && expiresAt.getTime() / 1000;
    });
    const facts = new Facts({ api, claims, volumes, datasets, clock });
    this.#server = new WebhookServer({ webhook: new Webhook({ facts, metrics, logger, clock }), logger, clock });
    this.#stop = secrets.onChange((key, _before, secret) => {
      if (key === `${namespace}/${webhookName}` && secret !== undefined) this.#take(secret, logger);
    });
  }

  async listen(port: number, host?: string): Promise<number> {
    return await this.#server.listen(port, host);
  }

  /** Reasons why the webhook cannot serve; empty when it can. */
  reasons(): string[] {
    const expiresAt = this.#server.expiresAt;
    if (expiresAt === undefined) return ['the webhook has no certificate yet; the leader issues one'];
    return expiresAt > this.#clock.date() ? [] : ['the certificate of the webhook has expired; the leader renews it'];
  }

  async close(lingerMs: number): Promise<void> {
    this.#stop();
    await this.#server.close(lingerMs);
  }

  #take(secret: Secret, logger: Logger): void {
    const texts = secretTexts(secret);
    try {
      this.#server.setCertificate(texts['tls.crt'] ?? '', texts['tls.key'] ?? '');
    } catch (thrown) {
      logger.warn('rejected a new webhook certificate; the old one stays in use', { error: HearthError.from(thrown) });
    }
  }
}
