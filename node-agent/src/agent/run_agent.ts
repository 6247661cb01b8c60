import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createLogger, HearthError, type Logger } from '@hearth/common';
import type { Address, Engine, EngineOptions, Question } from '@hearth/engine';
import { machineProbe } from '../capabilities/index.ts';
import { type AgentConfig, formatEndpoint, resolveCacheDirectories } from '../config/index.ts';
import { type AgentContext, defaultPace, type Pace } from '../context.ts';
import { ControlApi } from '../control/index.ts';
import { AgentMetrics, HealthServer } from '../health/index.ts';
import { Membership } from '../membership/index.ts';
import { TlsPeers } from '../peers/index.ts';
import { Session } from '../records/index.ts';
import { openStore, type Store } from '../store/index.ts';
import { TlsFiles } from '../tls/index.ts';
import { advertisedAddresses, listeningAddresses } from './addresses.ts';
import { Agent } from './agent.ts';
import { ClusterView } from './cluster_view.ts';
import { installationOf } from './installation.ts';
import { originOpener, sourcePreparer } from './sources.ts';
import { version } from './version.ts';

export interface RunOptions {
  /** The native engine, or a fake one in tests. */
  engineFactory: (options: EngineOptions) => Promise<Engine>;
  /** Ends the agent in order. */
  signal: AbortSignal;
  /** Absent: as the configuration says, on standard error. */
  logger?: Logger;
  pace?: Pace;
  environment?: Readonly<Record<string, string | undefined>>;
  /** Called once, when the agent serves. */
  onReady?: (running: RunningAgent) => void;
}

/** Where a running agent can be reached: with the real ports. */
export interface RunningAgent {
  agent: Agent;
  health: string;
  control: string | undefined;
}

const startDeadlineMs = 60_000;
const controlCloseMs = 3_000;

/**
 * Runs an agent until the signal: opens what it needs in the order of dependence, serves, and closes in the
 * reverse order, within `shutdownDeadline`. Throws a `HearthError` whose sentence says what could not be had
 * (a port in use, a directory locked by another agent, a store that is away) after everything opened before was
 * closed again. Mounts and warm jobs outlive it.
 */
export async function runAgent(config: AgentConfig, options: RunOptions): Promise<void> {
  const { level, format } = config.log;
  const logger = options.logger ?? createLogger({ level, format, fields: { node: config.node } });
  const stack = new Closing(logger);
  try {
    const start = AbortSignal.any([options.signal, AbortSignal.timeout(startDeadlineMs)]);
    const running = await startAgent(config, options, logger, stack, start);
    logger.info('the agent is ready', { version, health: running.health, socket: config.control.socket });
    options.onReady?.(running);
    await aborted(options.signal);
    logger.info('the agent is ending');
  } catch (thrown) {
    await stack
      .close(config.shutdownDeadline)
      .catch((error) => logger.error('the start could not be undone in order', { error }));
    if (options.signal.aborted) return;
    throw HearthError.from(thrown);
  }
  await stack.close(config.shutdownDeadline);
}

async function startAgent(
  config: AgentConfig,
  options: RunOptions,
  logger: Logger,
  stack: Closing,
  signal: AbortSignal,
): Promise<RunningAgent> {
  const pace = options.pace ?? defaultPace;
  const environment = options.environment ?? process.env;
  const incarnation = randomUUID();
  let agent: Agent | undefined;
  let membership: Membership | undefined;

  const health = new HealthServer(
    {
      reasons: () => (membership === undefined ? ['the agent is starting'] : notReady(membership)),
      metrics: async () => {
        if (agent === undefined) throw new HearthError('Unavailable', 'the agent is starting; try again');
        return await new AgentMetrics(agent).scrape();
      },
    },
    logger,
  );
  stack.push('health server', () => health.close());
  const healthAddress = await health.listen(config.health.listen);

  const files = controlFiles(config, logger);
  stack.push('certificates', async () => files?.close());
  const { listen } = config.control;

  const store = await openConfiguredStore(config, logger);
  stack.push('store', () => store.close());

  const onQuestion = (question: Question) => {
    // Its log begins before there is an agent; nothing else does.
    if (question.kind === 'log') logger.log(question.level, question.message, question.fields);
    else agent?.answer(question);
  };
  const engine = await options.engineFactory(await engineOptions(config, incarnation, onQuestion));
  stack.push('engine', () => engine.close());

  const session = new Session(store, logger, pace.leaseSeconds);
  stack.push('session', () => session.close());

  membership = new Membership({
    store,
    session,
    logger,
    takeoverMs: (pace.leaseSeconds + 2) * 1000,
    self: {
      node: config.node,
      incarnation,
      installation: await installationOf(config.cache.directories[0]?.path ?? ''),
      wire: advertisedAddresses(config.wire.advertise, engine.addresses()),
      control: '',
      health: healthAddress,
      zone: config.zone,
      rack: config.rack,
      version,
      ready: false,
      reason: 'the agent is starting',
    },
  });
  const members = membership;
  stack.push('membership', () => members.close());
  const view = new ClusterView(engine, members, logger);
  stack.push('cluster view', () => view.close());
  await members.joined(signal);
  view.refresh();
  await view.settled();

  const context: AgentContext = { node: config.node, store, engine, session, members, logger, pace };
  const { node, cluster } = config;
  const peers = files === undefined ? undefined : new TlsPeers({ node, cluster, members, files });
  stack.push('connections to other agents', async () => peers?.close());
  agent = new Agent(context, {
    openOrigin: originOpener(config, environment),
    holder: config.holder.socket,
    volumes: config.volumes.directory,
    probe: machineProbe(config, environment),
    peers,
  });
  const started = agent;
  stack.push('agent', () => started.close());
  await agent.start(signal);

  const control = new ControlApi(agent, {
    socket: config.control.socket,
    cluster: config.cluster,
    prepare: sourcePreparer(config.origins, environment),
    ...(files === undefined || listen === undefined ? {} : { tcp: { listen, files } }),
  });
  stack.push('control API', () => control.close(Math.min(controlCloseMs, config.shutdownDeadline / 2)));
  await control.listen();
  if (control.tcpAddress !== undefined) {
    members.setControl(advertisedControl(control.tcpAddress, members.self.wire));
  }
  members.setReady(true, '');
  return { agent, health: healthAddress, control: control.tcpAddress };
}

function notReady(membership: Membership): string[] {
  const { standing, self } = membership;
  const reasons = standing.kind === 'degraded' ? [standing.reason] : [];
  return self.ready ? reasons : [...reasons, self.reason];
}

async function openConfiguredStore(config: AgentConfig, logger: Logger): Promise<Store> {
  const { store, storeAuthorities, storeCertificate, storeKey, storeServerName } = config;
  if (store.startsWith('sqlite:')) await makeFolder(dirname(store.slice('sqlite:'.length)), 'the store', 'store');
  const tls = { ca: storeAuthorities, cert: storeCertificate, key: storeKey, serverName: storeServerName };
  return await openStore(store, { tls, logger });
}

async function engineOptions(
  config: AgentConfig,
  incarnation: string,
  onQuestion: (question: Question) => void,
): Promise<EngineOptions> {
  for (const { path } of config.cache.directories) await makeFolder(path, 'the cache', 'cache.directories');
  return {
    node: config.node,
    incarnation,
    cluster: config.cluster,
    secret: config.secret,
    listen: listeningAddresses(config.wire.listen, config.wire.networks),
    cacheDirectories: await resolveCacheDirectories(config.cache.directories),
    shards: config.engine.shards,
    originConnections: config.engine.originConnections,
    bufferBytes: config.engine.bufferBytes,
    certificateAuthorities: config.origins.certificateAuthorities ?? '',
    forbidPrivateAddresses: !config.origins.allowPrivate,
    allowedNetworks: config.origins.allowedNetworks,
    onQuestion,
  };
}

async function makeFolder(path: string, what: string, key: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o755 });
  } catch (thrown) {
    throw new HearthError(
      'PermissionDenied',
      `the directory ${path} of ${what} cannot be made (${(thrown as Error).message}); make it or set ${key}`,
    );
  }
}

/** Files of the control API's mutual TLS; undefined without a TCP address for it. */
function controlFiles(config: AgentConfig, logger: Logger): TlsFiles | undefined {
  const { listen, certificate, key, clientAuthorities } = config.control;
  if (listen === undefined || certificate === undefined || key === undefined || clientAuthorities === undefined) {
    return undefined;
  }
  const named = (name: string, path: string) => ({ setting: `control.${name}`, path });
  const identity = { certificate: named('certificate', certificate), key: named('key', key) };
  return TlsFiles.open({ authorities: named('clientAuthorities', clientAuthorities), identity }, logger);
}

/** Where others reach the control API: on every address means on the first one that they are told of for bytes. */
function advertisedControl(listening: string, wire: readonly Address[]): string {
  const everywhere = /^(0\.0\.0\.0|\[::\]):(\d+)$/.exec(listening);
  const [first] = wire;
  if (everywhere === null || first === undefined) return listening;
  return formatEndpoint({ host: first.host, port: Number(everywhere[2]) });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** What was opened, to be closed in the reverse order; one that fails does not keep the others open. */
class Closing {
  readonly #steps: { what: string; close: () => Promise<void> }[] = [];
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  push(what: string, close: () => Promise<void>): void {
    this.#steps.push({ what, close });
  }

  /** `DeadlineExceeded` names what did not end in time. */
  async close(deadlineMs: number): Promise<void> {
    let present = '';
    const all = (async () => {
      for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
        present = step.what;
        await step
          .close()
          .catch((error) =>
            this.#logger.error('something did not end in order', { what: present, error: HearthError.from(error) }),
          );
      }
      return true;
    })();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), deadlineMs);
    });
    const inTime = await Promise.race([all, late]);
    clearTimeout(timer);
    if (!inTime)
      throw new HearthError(
        'DeadlineExceeded',
        `the agent did not end within ${deadlineMs / 1000} s: its ${present} hangs; raise shutdownDeadline if this is normal`,
      );
  }
}
