// A replica of the operator as its program runs it, but for the name by which the API server reaches its webhook.
import { subscribe } from 'node:diagnostics_channel';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createLogger } from '@hearth/common';
import { ElectionThread, KubernetesApi, type ReconcileOutcome, reconcileChannel } from '@hearth/common/kubernetes';
import { releaseNamespace as namespace } from '@hearth/common/testing/kubernetes';
import { runOperator } from '../../operator/src/operator/index.ts';
import { plainPods } from '../../operator/src/storage_cluster/index.ts';
import type { FromReplica, ReplicaSample } from './operator_replica.ts';

const [instance = ''] = process.argv.slice(2);
const delay = monitorEventLoopDelay({ resolution: 10 });
delay.enable();
let longest: ReplicaSample['longest'] = { controller: '', key: '', seconds: 0 };
subscribe(reconcileChannel, (message) => {
  const { controller, key, seconds } = message as ReconcileOutcome;
  if (seconds > longest.seconds) longest = { controller, key, seconds };
});
const send = (message: FromReplica) => process.send?.(message);
process.on('message', () => {
  send({ kind: 'sample', sample: { longest, longestPauseSeconds: delay.max / 1e9 } });
  delay.reset();
  longest = { controller: '', key: '', seconds: 0 };
});
process.once('disconnect', () => process.exit());

await runOperator({
  api: KubernetesApi.fromDefault({ userAgent: 'hearth-operator' }),
  urgentApi: KubernetesApi.fromDefault({ userAgent: 'hearth-operator' }),
  environment: {
    namespace,
    image: 'registry/hearth:1',
    etcdImage: 'registry/etcd:3',
    imagePullPolicy: 'IfNotPresent',
    imagePullSecrets: [],
    pods: plainPods,
  },
  grant: { clusterRole: 'hearth-secrets', serviceAccount: { namespace, name: 'hearth-operator' } },
  identity: `${instance}_${process.pid}`,
  instance,
  elect: ({ clock: _, ...options }) => new ElectionThread({ ...options, userAgent: 'hearth-operator' }),
  http: { port: 0, host: '127.0.0.1' },
  webhook: { port: 0, host: 'localhost', serverName: 'localhost', lingerMs: 0 },
  logger: createLogger({ level: 'info', format: 'json' }),
  signal: new AbortController().signal,
  onReady: ({ port, webhookPort = 0 }) => send({ kind: 'ready', port, webhookPort }),
});
