import { type Logger, systemClock } from '@hearth/common';
import {
  type Applied,
  type KubernetesClient,
  kinds,
  type MutatingWebhookConfiguration,
  runController,
  type Secret,
  WorkQueue,
  watch,
} from '@hearth/common/kubernetes';
import { labelsOfOperator, type SecretTexts, type Source, secretData, secretTexts } from '../kubernetes/index.ts';
import { type Reconciler, reconcileKey } from '../reconciler/index.ts';
import { planWebhookCertificates, type WebhookCertificates } from './certificates.ts';

/** The chart's name of the Service, the Secret and the configuration. */
export const webhookName = 'hearth-webhook';
const podsWebhook = 'pods.hearth.storage';

export interface WebhookControllerOptions {
  api: Pick<KubernetesClient, 'apply'>;
  namespace: string;
  secrets: Source<Secret>;
  configurations: Source<MutatingWebhookConfiguration>;
  /** The name in the certificate; absent: the Service. */
  serverName?: string | undefined;
  logger: Logger;
  now?: () => Date;
}

export interface ObservedWebhook {
  now: Date;
  certificates: WebhookCertificates;
  /** The bundle in the configuration; undefined without a configuration. */
  trusted: string | undefined;
}

export type WebhookAction =
  | { kind: 'writeSecret'; texts: SecretTexts; reason: string }
  | { kind: 'writeAuthorities'; authorities: string }
  | { kind: 'reportMissing' };

/** Upper bound between two checks of the certificates, ms. */
const maxPauseMs = 3_600_000;

/** Keeps the certificates in one Secret and the bundle in the webhook configuration. Keys have no meaning. */
export class WebhookReconciler implements Reconciler<string, ObservedWebhook, WebhookAction> {
  readonly #options: WebhookControllerOptions;

  constructor(options: WebhookControllerOptions) {
    this.#options = options;
  }

  async observe(): Promise<ObservedWebhook> {
    const { namespace, secrets, configurations, now: time = () => systemClock.date() } = this.#options;
    const now = time();
    const trusted = authoritiesOf(configurations.get(webhookName));
    const name = this.#options.serverName ?? `${webhookName}.${namespace}.svc`;
    const texts = secretTexts(secrets.get(`${namespace}/${webhookName}`));
    return { now, trusted, certificates: await planWebhookCertificates(name, texts, trusted ?? '', now) };
  }

  plan(_key: string, { certificates: { texts, reason }, trusted }: ObservedWebhook): WebhookAction[] {
    const actions: WebhookAction[] = reason === undefined ? [] : [{ kind: 'writeSecret', texts, reason }];
    const authorities = texts['ca.crt'] ?? '';
    if (trusted === undefined) actions.push({ kind: 'reportMissing' });
    else if (authorities !== trusted) actions.push({ kind: 'writeAuthorities', authorities });
    return actions;
  }

  async apply(action: WebhookAction, _key: string, signal: AbortSignal): Promise<void> {
    const { api, namespace, logger } = this.#options;
    switch (action.kind) {
      case 'writeSecret':
        await api.apply(kinds.Secret, secretOf(namespace, action.texts), { signal });
        return logger.info('wrote the Secret of the webhook certificates', { reason: action.reason });
      case 'writeAuthorities':
        await api.apply(kinds.MutatingWebhookConfiguration, bundleOf(action.authorities), { signal });
        return logger.info('wrote the CA bundle of the MutatingWebhookConfiguration');
      case 'reportMissing':
        return logger.warn(
          `found no MutatingWebhookConfiguration ${webhookName}, so no pod is gated; install the chart again`,
        );
    }
  }

  requeueAfterMs(_key: string, { certificates, now }: ObservedWebhook): number {
    return Math.min(maxPauseMs, Math.max(1_000, certificates.renewAt.getTime() - now.getTime()));
  }
}

/** Runs on the leader only, until the signal aborts. The reflectors must run already. */
export async function runWebhookController(options: WebhookControllerOptions, signal: AbortSignal): Promise<void> {
  const { secrets, configurations, namespace, logger } = options;
  const secretKey = `${namespace}/${webhookName}`;
  await runController({
    name: 'webhook',
    queue: new WorkQueue({ firstDelayMs: 200, longestDelayMs: 30_000 }),
    workers: 1,
    watches: [
      watch(secrets, (key) => (key === secretKey ? [webhookName] : [])),
      watch(configurations, () => [webhookName]),
    ],
    first: () => [webhookName],
    reconcile: reconcileKey(new WebhookReconciler(options), (key) => key),
    logger,
    signal,
  });
}

function secretOf(namespace: string, texts: SecretTexts): Applied<Secret> {
  return {
    metadata: { name: webhookName, namespace, labels: labelsOfOperator('webhook') },
    type: 'kubernetes.io/tls',
    data: secretData(texts),
  };
}

function authoritiesOf(configuration: MutatingWebhookConfiguration | undefined): string | undefined {
  if (configuration === undefined) return undefined;
  const webhook = configuration.webhooks?.find(({ name }) => name === podsWebhook);
  return Buffer.from(webhook?.clientConfig.caBundle ?? '', 'base64').toString('utf8');
}

/** Owns only this field; the chart owns the others and omits this one. */
function bundleOf(authorities: string): Applied<MutatingWebhookConfiguration> {
  const clientConfig = { caBundle: Buffer.from(authorities).toString('base64') };
  const fields = { metadata: { name: webhookName }, webhooks: [{ name: podsWebhook, clientConfig }] };
  return fields as Applied<MutatingWebhookConfiguration>;
}
