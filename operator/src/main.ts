import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { HearthError } from '@hearth/common';
import { ElectionThread, KubernetesApi } from '@hearth/common/kubernetes';
import { runOperator } from './operator/index.ts';
import { runProcess } from './process.ts';
import { readEnvironment } from './storage_cluster/index.ts';

const usage = `Usage: hearth-operator

Reconciles StorageClusters, NodeCaches and Datasets, and provisions volumes. Configured by variables, which the chart
sets: POD_NAMESPACE, POD_NAME, HEARTH_IMAGE, HEARTH_ETCD_IMAGE, HEARTH_IMAGE_PULL_POLICY, HEARTH_IMAGE_PULL_SECRETS,
HEARTH_POD_SETTINGS (JSON: labels, variables, accounts and the like of the pods that it makes), HEARTH_LOG_LEVEL,
HEARTH_HTTP_PORT (8080), HEARTH_WEBHOOK_PORT (absent: no webhook, so no pod is gated),
HEARTH_SERVICE_ACCOUNT (hearth-operator). Outside of a cluster KUBECONFIG says where the API server is.
`;

/** How long a terminating replica answers API servers, ms. */
const lingerMs = 5_000;

if (process.argv.includes('--help')) process.stdout.write(usage);
else process.exit(await runProcess('hearth-operator', run));

async function run(logger: Parameters<typeof runOperator>[0]['logger'], signal: AbortSignal): Promise<void> {
  const environment = readEnvironment(process.env);
  const instance = process.env.POD_NAME ?? hostname();
  const api = KubernetesApi.fromDefault({ userAgent: 'hearth-operator' });
  const urgentApi = KubernetesApi.fromDefault({ userAgent: 'hearth-operator' });
  const webhookPort = process.env.HEARTH_WEBHOOK_PORT ?? '';
  try {
    await runOperator({
      api,
      urgentApi,
      environment,
      instance,
      identity: `${instance}_${randomUUID()}`,
      elect: ({ clock: _, ...options }) => new ElectionThread({ ...options, userAgent: 'hearth-operator' }),
      grant: {
        clusterRole: 'hearth-secrets',
        serviceAccount: {
          namespace: environment.namespace,
          name: process.env.HEARTH_SERVICE_ACCOUNT ?? 'hearth-operator',
        },
      },
      http: { port: portOf('HEARTH_HTTP_PORT', '8080') },
      ...(webhookPort === '' ? {} : { webhook: { port: portOf('HEARTH_WEBHOOK_PORT'), lingerMs } }),
      logger,
      signal,
    });
  } finally {
    api.close();
    urgentApi.close();
  }
}

function portOf(variable: string, absent = ''): number {
  const port = Number(process.env[variable] ?? absent);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new HearthError('InvalidArgument', `the variable ${variable} must be a port`);
}
