/** Admission of pods: gates new pods that use gated Datasets. */
export { Facts } from './facts.ts';
export { Webhook, WebhookMetrics } from './webhook.ts';
export { runWebhookController, webhookName } from './webhook_controller.ts';
export { WebhookServer } from './webhook_server.ts';
