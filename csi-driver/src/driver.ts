import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';
import { HealthServer } from '@hearth/common/health';
import { AccessRecords, AccessRenewal, ClientAccess } from './access/index.ts';
import { NodeAgents, NodeGroups } from './agent/index.ts';
import type { Configuration } from './configuration.ts';
import { ControllerService } from './controller/index.ts';
import { SystemMounts } from './mounts/index.ts';
import { driverVersion } from './names.ts';
import {
  LostMounts,
  NodeService,
  PodUsers,
  Publications,
  PublishedRecords,
  Rebinding,
  Topology,
} from './node/index.ts';
import { reconcileRecords } from './records/index.ts';
import { addCsiServices, CallHandlers, Identity, KubeletRegistration, SocketServer } from './server/index.ts';

/** Milliseconds. The kubelet's limit for a call is two minutes; it retries slower calls. */
const pace = {
  callMs: 110_000,
  agentMs: 60_000,
  mountMs: 20_000,
  watchMs: 2000,
  retryMs: 10_000,
  drainMs: 10_000,
  rebindMs: 3000,
  // The kubelet detects the end of a container within a second.
  lostMs: 250,
  podUsersMs: 3000,
  topologyMs: 5000,
  accessMs: 5000,
  renewMs: 300_000,
};

export class Driver {
  readonly #configuration: Configuration;
  readonly #logger: Logger;
  readonly #mounts: SystemMounts;
  readonly #records: PublishedRecords;
  readonly #accessRecords: AccessRecords;
  readonly #renewal: AccessRenewal;
  readonly #rebinding: Rebinding;
  readonly #lostMounts: LostMounts;
  readonly #podUsers: PodUsers;
  readonly #server: SocketServer;
  readonly #registration: KubeletRegistration | undefined;
  readonly #topology: Topology;
  readonly #health: HealthServer;
  #reconciled = false;

  constructor(configuration: Configuration, logger: Logger, clock: Clock = systemClock) {
    const shared = { logger, clock };
    const { node, stateDirectory, kubeletDirectory, registrationDirectory, socket } = configuration;
    this.#configuration = configuration;
    this.#logger = logger;
    this.#health = new HealthServer({ reasons: () => this.#reasons() }, logger);
    this.#mounts = new SystemMounts({ kubeletDirectory, deadlineMs: pace.mountMs, ...shared });
    this.#records = new PublishedRecords(stateDirectory, logger);
    this.#accessRecords = new AccessRecords(stateDirectory, logger);
    const selection = selectionOf(configuration, logger);
    const agents = new NodeAgents({ stateDirectory, node, deadlineMs: pace.agentMs, ...selection });
    const mapsIds = (target: string) => this.#podUsers.mapsIds(target);
    const publications = new Publications({ agents, mounts: this.#mounts, records: this.#records, mapsIds, ...shared });
    const access = new ClientAccess({ agents, mounts: this.#mounts, records: this.#accessRecords, ...shared });
    const handlers = new CallHandlers({ ...shared, deadlineMs: pace.callMs });
    const identity = new Identity({
      version: driverVersion(),
      controller: configuration.services === 'all',
      ready: () => this.#reconciled,
    });
    // Created once, since it holds the locks.
    const nodeService = new NodeService({
      node,
      publications,
      access,
      clusters: () => agents.clusters(),
      published: () => this.#podUsers.look(),
    });
    this.#renewal = new AccessRenewal({
      records: this.#accessRecords,
      renew: (target) => nodeService.renewAccess(target, clock.timeout(pace.agentMs)),
      everyMs: pace.accessMs,
      renewMs: pace.renewMs,
      ...shared,
    });
    this.#rebinding = new Rebinding({
      stateDirectory,
      records: this.#records,
      mounts: this.#mounts,
      rebind: (...mount) => nodeService.alone(mount[1], () => publications.rebind(...mount)),
      everyMs: pace.rebindMs,
      ...shared,
    });
    this.#lostMounts = new LostMounts({
      stateDirectory,
      records: this.#records,
      mounts: this.#mounts,
      bar: (...mount) => nodeService.alone(mount[1], () => publications.bar(...mount)),
      everyMs: pace.lostMs,
      ...shared,
    });
    this.#podUsers = new PodUsers({
      kubeletDirectory,
      records: this.#records,
      mounts: this.#mounts,
      makeMappable: (cluster, target) =>
        nodeService.alone(target, () => publications.makeMappable(cluster, target, clock.timeout(pace.agentMs))),
      everyMs: pace.podUsersMs,
      ...shared,
    });
    const services = { identity, node: nodeService, controller: this.#controller(agents) };
    this.#server = new SocketServer({
      socket,
      services: (server) => addCsiServices(server, handlers, services),
      watchMs: pace.watchMs,
      ...shared,
    });
    if (registrationDirectory !== undefined) {
      const { watchMs, retryMs } = pace;
      const options = { directory: registrationDirectory, endpoint: socket, handlers, watchMs, retryMs, ...shared };
      this.#registration = new KubeletRegistration(options);
    }
    this.#topology = new Topology({
      clusters: () => agents.clusters(),
      renew: async () => await this.#registration?.renew(),
      everyMs: pace.topologyMs,
      ...shared,
    });
  }

  /** Throws the errors of `SocketServer.listen`, and `IoError` for the health address. */
  async start(): Promise<void> {
    const { health, node, socket, services } = this.#configuration;
    if (health !== undefined) await this.#health.bind(health, (error) => healthError(health, error));
    const { kept, removed } = await reconcileRecords(this.#records, this.#mounts, this.#logger);
    await reconcileRecords(this.#accessRecords, this.#mounts, this.#logger);
    this.#reconciled = true;
    await this.#server.listen();
    await this.#topology.check();
    this.#topology.start();
    await this.#registration?.start();
    this.#rebinding.start();
    this.#lostMounts.start();
    this.#podUsers.start('now');
    this.#renewal.start('now');
    this.#logger.info('the driver is ready', { node, socket, services, published: kept, removed });
  }

  /** Unregisters first, so that the kubelet makes no more calls, then waits for running calls. */
  async close(): Promise<void> {
    await this.#renewal.close();
    await this.#lostMounts.close();
    await this.#podUsers.close();
    await this.#rebinding.close();
    await this.#topology.close();
    await this.#registration?.close();
    await this.#server.close(pace.drainMs);
    await this.#health.close();
  }

  /** Finds the agent for each call, since agents come and go. */
  #controller(agents: NodeAgents): ControllerService | undefined {
    const { services, cluster } = this.#configuration;
    if (services === 'node') return undefined;
    return new ControllerService({
      call: async (name, request, options) => {
        const { control } = await agents.find(cluster);
        return await control.call(name, request, options);
      },
    });
  }

  #reasons(): string[] {
    const reasons: string[] = [];
    if (!this.#server.listening) reasons.push('the socket of the driver is not there');
    if (this.#registration?.registered === false) reasons.push('the kubelet has not registered the driver');
    return reasons;
  }
}

function selectionOf({ nodeGroupsFile: path, node }: Configuration, logger: Logger) {
  if (path === undefined) return {};
  const groups = new NodeGroups({ path, node, logger });
  return { selection: (cluster: string | undefined) => groups.selection(cluster) };
}

function healthError({ host, port }: { host: string; port: number }, { message }: Error): HearthError {
  return new HearthError(
    'IoError',
    `health cannot be served on ${host}:${port} (${message}); set --health-listen to another address`,
  );
}

/** Runs until SIGTERM or SIGINT, then shuts down. Resolves to the exit code. */
export async function runDriver(configuration: Configuration, logger: Logger): Promise<number> {
  const ended = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal));
  });
  const driver = new Driver(configuration, logger);
  try {
    await driver.start();
  } catch (thrown) {
    const error = HearthError.from(thrown);
    logger.error('failed to start the driver', { error });
    return error.exitCode;
  }
  logger.info('the driver is shutting down', { signal: await ended });
  await driver.close();
  return 0;
}
