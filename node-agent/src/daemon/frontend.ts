import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Clock, controlApi, HearthError, type Logger } from '@hearth/common';
import type { Address } from '@hearth/engine';
import { type Agent, StandbyAgent } from '../agent/index.ts';
import { type AgentConfig, formatEndpoint } from '../config/index.ts';
import type { Timings } from '../context.ts';
import { ControlApi } from '../control/index.ts';
import { AgentMetrics, HealthServer } from '../health/index.ts';
import { Membership } from '../membership/index.ts';
import type { Environment } from '../origins/index.ts';
import { AgentPeers, type Peers } from '../peers/index.ts';
import { Session } from '../records/index.ts';
import { MeteredStore, openStore, type Store } from '../store/index.ts';
import { TlsFiles } from '../tls/index.ts';
import { advertisedAddresses, checkWirePorts, listeningAddresses } from './addresses.ts';
import type { Closing } from './closing.ts';
import { sourcePreparer } from './sources.ts';
import { version } from './version.ts';

export interface FrontendOptions {
  config: AgentConfig;
  environment: Environment;
  timings: Timings;
  logger: Logger;
  clock: Clock;
}

/** The externally visible part of an agent, with or without a cache. */
export interface Frontend {
  readonly incarnation: string;
  /** Listening addresses of the engine. */
  readonly listen: readonly Address[];
  readonly store: MeteredStore;
  readonly session: Session;
  readonly members: Membership;
  readonly peers: Peers;
  /** Addresses with their bound ports. */
  readonly health: string;
  readonly control: string | undefined;
  /** Switches the control API and metrics to the agent. */
  serve(agent: Agent): Promise<void>;
}

const controlCloseMs = 3_000;
/** Time to wait for the store when the agent ends, ms. */
const storeResponseMs = 1_500;

/**
 * Starts everything that needs no cache: health server, store, membership and control API, which reports why the agent
 * does not serve yet. Throws on errors that need a person, such as a port in use. Pushes opened resources onto the
 * stack.
 */
export async function startFrontend(options: FrontendOptions, stack: Closing): Promise<Frontend> {
  const { config, environment, timings, logger, clock } = options;
  const { node, cluster } = config;
  const incarnation = randomUUID();
  let membership: Membership | undefined;
  let serving: Agent | undefined;
  const reasons = () => (membership === undefined ? ['the agent is starting'] : notReady(membership));

  const metrics = async () => {
    if (serving !== undefined) return await new AgentMetrics(serving).scrape();
    throw new HearthError('Unavailable', `there are no metrics yet: ${reasons().join('; ')}`);
  };
  const health = new HealthServer({ reasons, metrics }, logger);
  stack.push('health server', () => health.close());
  const healthAddress = await health.listen(config.health.listen);

  const files = controlFiles(config, logger, clock);
  stack.push('certificates', async () => files?.close());
  const listen = listeningAddresses(config.wire.listen, config.wire.networks);
  await checkWirePorts(listen);

  const store = new MeteredStore(await openConfiguredStore(config, logger, clock));
  stack.push('store', () => store.close());
  stack.onBegin(() => void skipUnresponsiveStore(store, logger));
  const session = new Session(store, logger, timings.leaseSeconds, clock);
  stack.push('session', () => session.close());

  const takeoverMs = (timings.leaseSeconds + 2) * 1000;
  const place = { zone: config.zone, rack: config.rack };
  const state = { ready: false, reason: 'the agent is opening its cache' };
  // An SQLite store is that of one machine, whose agents reach each other's sockets.
  const socket = config.store.startsWith('sqlite:') ? config.control.socket : '';
  const addresses = { wire: [], control: '', health: healthAddress, socket };
  const api = { apiVersion: controlApi.apiVersion, apiFeatures: [...controlApi.apiFeatures] };
  const self = { node, incarnation, installation: '', ...addresses, ...place, version, ...api, ...state };
  const members = new Membership({ store, session, logger, clock, takeoverMs, self });
  membership = members;
  stack.push('membership', () => members.close());

  const peers = new AgentPeers({ node, cluster, members, files });
  stack.push('connections to other agents', async () => peers.close());

  const reason = () => reasons().join('; ');
  const { goneGraceMs } = timings;
  const standby = new StandbyAgent({ node, store, members, logger, clock, reason, goneGraceMs, peers });
  stack.push('view of the cluster', () => standby.close());
  const tcp =
    files === undefined || config.control.listen === undefined ? {} : { tcp: { listen: config.control.listen, files } };
  const prepare = sourcePreparer(config.origins, environment);
  const control = new ControlApi(standby, {
    socket: config.control.socket,
    cluster,
    secret: config.secret,
    grants: config.clients,
    prepare,
    clock,
    ...tcp,
  });
  const closeControl = () => control.close(Math.min(controlCloseMs, config.shutdownDeadline / 2));
  stack.push('control API', closeControl);
  await control.listen();
  if (control.tcpAddress !== undefined) {
    members.setControl(advertisedControl(control.tcpAddress, advertisedAddresses(config.wire.advertise, listen)));
  }

  const serve = async (agent: Agent): Promise<void> => {
    serving = agent;
    control.switchTo(agent);
    // Calls end before the components that answer them are closed.
    stack.push('control API', closeControl);
    await standby.close();
  };
  const opened = { incarnation, listen, store, session, members, peers };
  return { ...opened, health: healthAddress, control: control.tcpAddress, serve };
}

function notReady(membership: Membership): string[] {
  const { standing, self } = membership;
  const reasons = standing.kind === 'degraded' ? [standing.reason] : [];
  return self.ready ? reasons : [...reasons, self.reason];
}

/**
 * Components write to the store as they end; without this, each would wait in turn for a store that does not answer.
 */
async function skipUnresponsiveStore(store: Store, logger: Logger): Promise<void> {
  try {
    await store.revision({ deadlineMs: storeResponseMs });
  } catch (thrown) {
    const error = HearthError.from(thrown);
    // The store was closed meanwhile: everything has ended already.
    if (error.code === 'Cancelled') return;
    logger.warn('the store does not answer; shutting down without deregistering', { error });
    await store.close();
  }
}

async function openConfiguredStore(config: AgentConfig, logger: Logger, clock: Clock): Promise<Store> {
  const { store, storeAuthorities, storeCertificate, storeKey, storeServerName } = config;
  if (store.startsWith('sqlite:')) await makeFolder(dirname(store.slice('sqlite:'.length)), 'the store', 'store');
  const tls = { ca: storeAuthorities, cert: storeCertificate, key: storeKey, serverName: storeServerName };
  return await openStore(store, { tls, logger, clock });
}

async function makeFolder(path: string, what: string, key: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o755 });
  } catch (thrown) {
    throw new HearthError(
      'PermissionDenied',
      `the directory ${path} of ${what} cannot be created (${(thrown as Error).message}); create it or set ${key}`,
    );
  }
}

/** TLS files of the control API; undefined when it has no TCP address. */
function controlFiles(config: AgentConfig, logger: Logger, clock: Clock): TlsFiles | undefined {
  const { listen, certificate, key, clientAuthorities } = config.control;
  if (listen === undefined || certificate === undefined || key === undefined || clientAuthorities === undefined) {
    return undefined;
  }
  const named = (name: string, path: string) => ({ setting: `control.${name}`, path });
  const identity = { certificate: named('certificate', certificate), key: named('key', key) };
  return TlsFiles.open({ authorities: named('clientAuthorities', clientAuthorities), identity }, logger, { clock });
}

/** Published address of the control API: a wildcard address means the first address published for bytes. */
function advertisedControl(listening: string, wire: readonly Address[]): string {
  const everywhere = /^(0\.0\.0\.0|\[::\]):(\d+)$/.exec(listening);
  const [first] = wire;
  if (everywhere === null || first === undefined) return listening;
  return formatEndpoint({ host: first.host, port: Number(everywhere[2]) });
}
