import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createLogger, HearthError, type Logger } from '@hearth/common';
import type { Address, Engine, EngineOptions } from '@hearth/engine';
import { CacheCheck, CacheWatch } from '../cache/index.ts';
import { machineProbe } from '../capabilities/index.ts';
import { type AgentConfig, formatEndpoint } from '../config/index.ts';
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
import { Bystander } from './bystander.ts';
import { Closing } from './closing.ts';
import { ClusterView } from './cluster_view.ts';
import { EngineOpener } from './engine_opener.ts';
import { originOpener, sourcePreparer } from './sources.ts';
import { version } from './version.ts';
import { checkWirePorts } from './wire_ports.ts';

export interface RunOptions {
  /** The native engine, or a fake one in tests. */
  engineFactory: (options: EngineOptions) => Promise<Engine>;
  /** Ends the agent in order. */
  signal: AbortSignal;
  /** Absent: as the configuration says, on standard error. */
  logger?: Logger;
  pace?: Pace;
  environment?: Readonly<Record<string, string | undefined>>;
  /** Between two looks at cache directories, and two tries to use them. Tests shorten it; users cannot. */
  cacheLookMs?: number;
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
const defaultCacheLookMs = 30_000;
/** A store that does not answer within this time when the agent ends is not waited for any more. */
const muteStoreMs = 1_500;

/**
 * Runs an agent until the signal: opens what it needs in the order of dependence, serves, and closes in the
 * reverse order, within `shutdownDeadline`. Throws a `HearthError` whose sentence says what could not be had
 * (a port in use, a directory locked by another agent, a store that is away) after everything opened before was
 * closed again; with `onStartFailure: wait` cache directories and the store are waited for instead. Mounts and warm
 * jobs outlive it.
 */
export async function runAgent(config: AgentConfig, options: RunOptions): Promise<void> {
  const { level, format } = config.log;
  const logger = options.logger ?? createLogger({ level, format, fields: { node: config.node } });
  const stack = new Closing(logger);
  try {
    const running = await startAgent(config, options, logger, stack);
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

/**
 * First what needs no cache (health, store, membership, control API): from then on the agent says why it does not serve.
 * Then the cache and what stands on it.
 */
async function startAgent(
  config: AgentConfig,
  options: RunOptions,
  logger: Logger,
  stack: Closing,
): Promise<RunningAgent> {
  const { cacheLookMs = defaultCacheLookMs, pace = defaultPace } = options;
  const environment = options.environment ?? process.env;
  const { node, cluster } = config;
  const incarnation = randomUUID();
  const patient = config.onStartFailure === 'wait';
  const beginning = patient ? options.signal : within(startDeadlineMs, options.signal);
  let agent: Agent | undefined;
  let membership: Membership | undefined;
  const reasons = () => (membership === undefined ? ['the agent is starting'] : notReady(membership));

  const metrics = async () => {
    if (agent === undefined) throw new HearthError('Unavailable', `there are no metrics yet: ${reasons().join('; ')}`);
    return await new AgentMetrics(agent).scrape();
  };
  const health = new HealthServer({ reasons, metrics }, logger);
  stack.push('health server', () => health.close());
  const healthAddress = await health.listen(config.health.listen);

  const files = controlFiles(config, logger);
  stack.push('certificates', async () => files?.close());
  const listen = listeningAddresses(config.wire.listen, config.wire.networks);
  await checkWirePorts(listen);

  const store = await openConfiguredStore(config, logger);
  stack.push('store', () => store.close());
  stack.onBegin(() => void leaveMuteStore(store, logger));

  const session = new Session(store, logger, pace.leaseSeconds);
  stack.push('session', () => session.close());

  const self = {
    ...{ node, incarnation, installation: '', wire: [], control: '', health: healthAddress },
    ...{ zone: config.zone, rack: config.rack, version, ready: false, reason: 'the agent is opening its cache' },
  };
  const takeoverMs = (pace.leaseSeconds + 2) * 1000;
  const members = new Membership({ store, session, logger, takeoverMs, self });
  membership = members;
  stack.push('membership', () => members.close());

  const reason = () => reasons().join('; ');
  const bystander = new Bystander({ node, store, members, logger, reason, goneGraceMs: pace.goneGraceMs });
  stack.push('view of the cluster', () => bystander.close());
  const control = new ControlApi(bystander, {
    ...{ socket: config.control.socket, cluster, prepare: sourcePreparer(config.origins, environment) },
    ...(files === undefined || config.control.listen === undefined
      ? {}
      : { tcp: { listen: config.control.listen, files } }),
  });
  const closeControl = () => control.close(Math.min(controlCloseMs, config.shutdownDeadline / 2));
  stack.push('control API', closeControl);
  await control.listen();
  if (control.tcpAddress !== undefined) {
    members.setControl(advertisedControl(control.tcpAddress, advertisedAddresses(config.wire.advertise, listen)));
  }

  const check = new CacheCheck(config);
  const opener = new EngineOpener({ config, incarnation, listen, check, logger, factory: options.engineFactory });
  const { engine, installation } = await opener.open({
    onQuestion: (question) => agent?.answer(question),
    onFailure: (error) => {
      if (!patient) throw error;
      members.setReady(false, error.message);
    },
    againMs: cacheLookMs,
    signal: beginning,
  });
  stack.push('engine', () => engine.close());
  members.setCache({ wire: advertisedAddresses(config.wire.advertise, engine.addresses()), installation });
  members.setReady(false, 'the agent is starting');

  const view = new ClusterView(engine, members, logger);
  stack.push('cluster view', () => view.close());
  await members.joined(beginning);
  view.refresh();
  await view.settled();

  const context: AgentContext = { node, store, engine, session, members, logger, pace };
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
  await agent.start(within(startDeadlineMs, options.signal));

  control.answerBy(agent);
  await bystander.close();
  // Before the rooms that answer its calls.
  stack.push('control API', closeControl);
  const watch = new CacheWatch(check, cacheLookMs, logger, (trouble) =>
    members.setReady(trouble === undefined, trouble ?? ''),
  );
  stack.push('look at the cache', async () => watch.close());
  members.setReady(true, '');
  return { agent, health: healthAddress, control: control.tcpAddress };
}

function notReady(membership: Membership): string[] {
  const { standing, self } = membership;
  const reasons = standing.kind === 'degraded' ? [standing.reason] : [];
  return self.ready ? reasons : [...reasons, self.reason];
}

/** What ends tells the store so; where the store does not answer, each part would wait for it in its turn. */
async function leaveMuteStore(store: Store, logger: Logger): Promise<void> {
  try {
    await store.revision({ deadlineMs: muteStoreMs });
  } catch (thrown) {
    const error = HearthError.from(thrown);
    // It was closed meanwhile: everything has ended already.
    if (error.code === 'Cancelled') return;
    logger.warn('the store does not answer, so the agent ends without it', { error });
    await store.close();
  }
}

function within(milliseconds: number, signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(milliseconds)]);
}

async function openConfiguredStore(config: AgentConfig, logger: Logger): Promise<Store> {
  const { store, storeAuthorities, storeCertificate, storeKey, storeServerName } = config;
  if (store.startsWith('sqlite:')) await makeFolder(dirname(store.slice('sqlite:'.length)), 'the store', 'store');
  const tls = { ca: storeAuthorities, cert: storeCertificate, key: storeKey, serverName: storeServerName };
  return await openStore(store, { tls, logger });
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
