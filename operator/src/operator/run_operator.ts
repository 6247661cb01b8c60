import { HearthError, type Logger } from '@hearth/common';
import { HealthServer, listenFailure } from '@hearth/common/health';
import {
  EventRecorder,
  type KubernetesClient,
  LeaderElection,
  type LeaderElectionOptions,
} from '@hearth/common/kubernetes';
import { AgentDirectory } from '../agents/index.ts';
import { runDatasetController } from '../dataset/index.ts';
import { MountingPods, Placements } from '../kubernetes/index.ts';
import { runNodeCacheController } from '../node_cache/index.ts';
import { runNodeController } from '../nodes/index.ts';
import { runProvisioner } from '../provisioner/index.ts';
import { runReboundController } from '../rebound/index.ts';
import type { SecretGrant } from '../secrets/index.ts';
import { connectAgents, type Environment, runStorageClusterController } from '../storage_cluster/index.ts';
import { runNodeGroupsController, runNodeLabelsController } from '../topology/index.ts';
import { runWaitingController } from '../waiting/index.ts';
import { runWebhookController } from '../webhook/index.ts';
import { OperatorMetrics } from './metrics.ts';
import { PreloadingMetrics, runPreloading } from './preloading.ts';
import { allReflectors, createReflectors, partOfSource, type Reflectors } from './reflectors.ts';
import { WebhookService } from './webhook_service.ts';

export interface OperatorOptions {
  api: KubernetesClient;
  /** A client with its own connections for reviews and gates, which pods wait for. Absent: `api`. */
  urgentApi?: KubernetesClient;
  environment: Environment;
  grant: SecretGrant;
  /** Unique among replicas and their restarts. */
  identity: string;
  instance: string;
  http: { port: number; host?: string };
  webhook?: WebhookOptions;
  logger: Logger;
  signal: AbortSignal;
  onReady?: (running: RunningOperator) => void;
  /** Timing of the election, seconds; default: `electionTimes`. */
  election?: { leaseSeconds?: number; renewSeconds?: number; retrySeconds?: number };
  /** Makes the election. Absent: one in this thread, by `api`. */
  elect?: (options: Omit<LeaderElectionOptions, 'api'>) => Pick<LeaderElection, 'run' | 'isLeader'>;
  deletionTimeoutMs?: number;
}

export interface WebhookOptions {
  port: number;
  host?: string;
  /** The name in the certificate; absent: the chart's Service. */
  serverName?: string;
  /** Keeps serving this long after the signal, ms. */
  lingerMs: number;
}

export interface RunningOperator {
  port: number;
  webhookPort: number | undefined;
  isLeader: () => boolean;
  agents: AgentDirectory;
}

const leaseName = 'hearth-operator';

/**
 * Gates open again within 5 s of the end of a leader, half a second of which is between two looks at its lease. Short times
 * need renewals that wait for no other work, see ElectionThread.
 */
const electionTimes = { leaseSeconds: 4, renewSeconds: 3, retrySeconds: 0.5 };

/**
 * Runs a replica until the signal aborts: watches from the start, and reconciles while it leads. Failures of the API
 * server do not end it.
 */
export async function runOperator(options: OperatorOptions): Promise<void> {
  const { api, urgentApi = api, environment, identity, instance, logger, signal } = options;
  const { namespace } = environment;
  const reflectors = createReflectors({ api, namespace, webhook: options.webhook !== undefined, logger });
  const agents = new AgentDirectory(logger);
  const events = new EventRecorder({ api, component: 'hearth-operator', instance, logger });
  const elect = options.elect ?? ((given) => new LeaderElection({ ...given, api }));
  const election = elect({
    namespace,
    name: leaseName,
    identity,
    logger,
    ...electionTimes,
    ...options.election,
    onLeader: (leader) => logger.info('leader elected', { leader }),
  });
  const isLeader = () => election.isLeader;
  const metrics = new OperatorMetrics({ reflectors, agents, isLeader });
  const preloading = new PreloadingMetrics(metrics.registry, reflectors);
  const webhook =
    options.webhook &&
    new WebhookService({ api: urgentApi, namespace, reflectors, registry: metrics.registry, logger });
  const reasons = () => [...unsynced(reflectors), ...(webhook?.reasons() ?? [])];
  const http = new HealthServer({ reasons, metrics: () => metrics.scrape() }, logger);
  try {
    const failure = listenFailure('the operator', options.http.port, 'HEARTH_HTTP_PORT');
    const port = await http.bind(options.http, failure);
    const webhookPort = options.webhook && (await webhook?.listen(options.webhook.port, options.webhook.host));
    for (const [, reflector] of allReflectors(reflectors)) reflector.start(signal);
    await allSynced(reflectors, logger, signal);
    options.onReady?.({ port, webhookPort, isLeader, agents });
    logger.info('the operator is ready', { port });
    const { clusters, secrets, ownPods: pods } = reflectors;
    const linked = new AbortController();
    const links = { api, namespace, agents, clusters, secrets, pods, logger };
    const connected = connectAgents(links, AbortSignal.any([signal, linked.signal]));
    try {
      await election.run((term) => lead(options, { reflectors, agents, events, preloading }, term), signal);
    } finally {
      linked.abort();
      await connected;
    }
    logger.info('the operator is shutting down');
  } finally {
    await events.close();
    await agents.close();
    await webhook?.close(options.webhook?.lingerMs ?? 0);
    await http.close();
  }
}

interface Parts {
  reflectors: Reflectors;
  agents: AgentDirectory;
  events: EventRecorder;
  preloading: PreloadingMetrics;
}

async function lead(options: OperatorOptions, held: Parts, term: AbortSignal): Promise<void> {
  const { reflectors, agents, events, preloading } = held;
  const { api, urgentApi = api, environment, grant, instance, logger, webhook, deletionTimeoutMs } = options;
  const { clusters, caches, datasets, nodes, ownPods, storageClasses, webhooks: configurations } = reflectors;
  const claims = partOfSource(reflectors.claims, ({ pending }) => pending);
  const growing = partOfSource(reflectors.claims, (claim) => claim.growing);
  const volumes = partOfSource(reflectors.volumes, ({ ours }) => ours);
  const pods = partOfSource(reflectors.pods, ({ uses }) => (uses.size === 0 ? undefined : uses));
  const awaiting = partOfSource(reflectors.pods, (pod) => pod.awaiting);
  const mounts = partOfSource(reflectors.pods, (pod) => pod.mounts);
  const { configMaps, secrets } = reflectors;
  const owned = {
    DaemonSet: reflectors.daemonSets,
    StatefulSet: reflectors.statefulSets,
    Service: reflectors.services,
    ConfigMap: configMaps,
    PodDisruptionBudget: reflectors.disruptionBudgets,
    Secret: secrets,
  };
  const { namespace } = environment;
  const placements = new Placements(clusters, nodes);
  const mounting = new MountingPods();
  // Before the controllers, whose watches use both.
  const stopPlacements = placements.start();
  const stopMounting = mounting.follow(mounts, volumes);
  const parts = { api, agents, clusters, datasets, caches, nodes, placements, events, logger };
  try {
    await Promise.all([
      runStorageClusterController(
        { ...parts, environment, pods: ownPods, mounting, volumes, owned, deletionTimeoutMs },
        term,
      ),
      runNodeCacheController(parts, term),
      runNodeController(parts, term),
      runNodeLabelsController({ ...parts, mounting }, term),
      runNodeGroupsController({ ...parts, namespace, configMaps }, term),
      runReboundController({ ...parts, instance }, term),
      runDatasetController({ ...parts, volumes, pods, grant }, term),
      runWaitingController({ ...parts, pods: awaiting }, term),
      runProvisioner({ ...parts, claims, growing, storageClasses, volumes }, term),
      runPreloading({ api, urgentApi, agents, reflectors, events, logger }, preloading, term),
      configurations &&
        runWebhookController(
          { api, namespace, secrets, configurations, serverName: webhook?.serverName, logger },
          term,
        ),
    ]);
  } finally {
    stopPlacements();
    stopMounting();
    logger.info('stopped leading');
  }
}

async function allSynced(reflectors: Reflectors, logger: Logger, signal: AbortSignal): Promise<void> {
  try {
    await Promise.all(allReflectors(reflectors).map(([, reflector]) => reflector.synced()));
  } catch (thrown) {
    if (!signal.aborted) throw HearthError.from(thrown);
    logger.debug('shut down before the initial lists were complete');
  }
}

function unsynced(reflectors: Reflectors): string[] {
  return allReflectors(reflectors)
    .filter(([, reflector]) => !reflector.hasSynced)
    .map(([name]) => `${name} are not listed yet; look for errors of the API server in the log`);
}
