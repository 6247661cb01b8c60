import type { Logger } from '@hearth/common';
import {
  type Applied,
  type KubernetesClient,
  kinds,
  type MutatingWebhookConfiguration,
  runController,
  type Secret,
  WorkQueue,
} from '@hearth/common/kubernetes';
import type { SecretTexts } from '../certificates/index.ts';
import { labelsOfOperator, type Source } from '../kubernetes/index.ts';
import { planWebhookCertificates } from './certificates.ts';

/** Names of the Service, the Secret and the configuration, as the chart has them. */
export const webhookName = 'hearth-webhook';
/** Of the one webhook in the configuration. */
const podsWebhook = 'pods.hearth.storage';

export interface WebhookControllerOptions {
  api: Pick<KubernetesClient, 'apply'>;
  namespace: string;
  /** With the Secrets of the operator's namespace that the operator made. */
  secrets: Source<Secret>;
  configurations: Source<MutatingWebhookConfiguration>;
  /** By which the API server calls the webhook; absent: the name of the Service. */
  serverName?: string;
  logger: Logger;
  now?: () => Date;
}

/** However long certificates last, they are looked at so often, ms. */
const longestMs = 3_600_000;
const queueKey = 'webhook';

/**
 * Keeps the webhook's certificates, and registers at the API server by which authority to know the webhook; on the
 * leader only, until the signal aborts.
 */
export async function runWebhookController(options: WebhookControllerOptions, signal: AbortSignal): Promise<void> {
  const { secrets, configurations, namespace, logger } = options;
  const queue = new WorkQueue({ firstDelayMs: 200, longestDelayMs: 30_000 });
  const stops = [
    secrets.onChange((key) => {
      if (key === `${namespace}/${webhookName}`) queue.add(queueKey);
    }),
    configurations.onChange(() => queue.add(queueKey)),
  ];
  try {
    await Promise.all([secrets.synced(), configurations.synced()]);
    queue.add(queueKey);
    const reconcile = (_key: string, work: AbortSignal) => reconcileWebhook(options, work);
    await runController({ name: 'webhook', queue, workers: 1, reconcile, logger, signal });
  } finally {
    for (const stop of stops) stop();
  }
}

/** One pass. Idempotent; ends with when to look again. */
async function reconcileWebhook(
  options: WebhookControllerOptions,
  signal: AbortSignal,
): Promise<{ requeueAfterMs: number }> {
  const { api, namespace, secrets, configurations, logger, now = () => new Date() } = options;
  const configuration = configurations.get(webhookName);
  const believed = caBundleOf(configuration);
  const name = options.serverName ?? `${webhookName}.${namespace}.svc`;
  const observed = webhookTexts(secrets.get(`${namespace}/${webhookName}`));
  const { texts, reason, renewAt } = await planWebhookCertificates(name, observed, believed, now());
  if (reason !== undefined) {
    await api.apply(kinds.Secret, secretOf(namespace, texts), { signal });
    logger.info('the certificates of the webhook were written', { reason });
  }
  if (configuration === undefined) {
    logger.warn(`there is no MutatingWebhookConfiguration ${webhookName}: no pod is gated; install the chart again`);
  } else if (texts['ca.crt'] !== believed) {
    await api.apply(kinds.MutatingWebhookConfiguration, bundleOf(texts['ca.crt'] ?? ''), { signal });
    logger.info('the authority of the webhook is in its configuration');
  }
  return { requeueAfterMs: Math.min(longestMs, Math.max(1_000, renewAt.getTime() - now().getTime())) };
}

/** Texts of the webhook's Secret, by key. */
export function webhookTexts(secret: Secret | undefined): SecretTexts {
  const entries = Object.entries(secret?.data ?? {});
  return Object.fromEntries(entries.map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]));
}

function secretOf(namespace: string, texts: SecretTexts): Applied<Secret> {
  const data = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
  return {
    metadata: { name: webhookName, namespace, labels: labelsOfOperator('webhook') },
    type: 'kubernetes.io/tls',
    data: Object.fromEntries(data),
  };
}

function caBundleOf(configuration: MutatingWebhookConfiguration | undefined): string {
  const webhook = configuration?.webhooks?.find(({ name }) => name === podsWebhook);
  return Buffer.from(webhook?.clientConfig.caBundle ?? '', 'base64').toString('utf8');
}

/** Only this one field: the rest is the chart's, which does not name it, so that upgrading leaves it alone. */
function bundleOf(authorities: string): Applied<MutatingWebhookConfiguration> {
  const clientConfig = { caBundle: Buffer.from(authorities).toString('base64') };
  const fields = { metadata: { name: webhookName }, webhooks: [{ name: podsWebhook, clientConfig }] };
  return fields as Applied<MutatingWebhookConfiguration>;
}
