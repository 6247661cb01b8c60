/** Admission of pods: those that use Datasets are gated while they are made. */
export { Facts } from './facts.ts';
export { Webhook } from './webhook.ts';
export { runWebhookController, webhookName } from './webhook_controller.ts';
export { WebhookMetrics } from './webhook_metrics.ts';
export { WebhookServer } from './webhook_server.ts';
