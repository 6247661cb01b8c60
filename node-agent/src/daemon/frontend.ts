import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Clock, controlApi, HearthError, type Logger } from '@hearth/common';
import type { Address } from '@hearth/engine';
import { type Agent, StandbyAgent } from '../agent/index.ts';
import { type AgentConfig, formatEndpoint } from '../config/index.ts';
import type { Pace } from '../context.ts';
import { ControlApi } from '../control/index.ts';
import { AgentMetrics, HealthServer } from '../health/index.ts';
import { Membership } from '../membership/index.ts';
import type { Environment } from '../origins/index.ts';
import { Session } from '../records/index.ts';
import { openStore, type Store } from '../store/index.ts';
import { TlsFiles } from '../tls/index.ts';
import { advertisedAddresses, checkWirePorts, listeningAddresses } from './addresses.ts';
import type { Closing } from './closing.ts';
import { sourcePreparer } from './sources.ts';
import { version } from './version.ts';

export interface FrontendOptions {
  config: AgentConfig;
  environment: Environment;
  pace: Pace;
  logger: Logger;
  clock: Clock;
}

/** The outside of an agent, with a cache or without. */
export interface Frontend {
  readonly incarnation: string;
  /** Where the engine is to listen. */
  readonly listen: readonly Address[];
  readonly store: Store;
  readonly session: Session;
  readonly members: Membership;
  /** Of the control API over TCP; undefined: there is none. */
  readonly files: TlsFiles | undefined;
  /** Addresses with their real ports. */
  readonly health: string;
  readonly control: string | undefined;
  /** From now on the agent answers at the control API, and for the metrics. */
  serve(agent: Agent): Promise<void>;
}

const controlCloseMs = 3_000;
/** A store that does not answer within this time when the agent ends is not waited for any more. */
const muteStoreMs = 1_500;

/**
 * Opens all of an agent that needs no cache: health server, store, membership and control API. From then on it says why
 * it does not serve. Throws when something fails that a person must change, as a port in use. What was opened is
 * on the stack.
 */
export async function startFrontend(options: FrontendOptions, stack: Closing): Promise<Frontend> {
  const { config, environment, pace, logger, clock } = options;
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

  const store = await openConfiguredStore(config, logger, clock);
  stack.push('store', () => store.close());
  stack.onBegin(() => void leaveMuteStore(store, logger));
  const session = new Session(store, logger, pace.leaseSeconds, clock);
  stack.push('session', () => session.close());

  const takeoverMs = (pace.leaseSeconds + 2) * 1000;
  const place = { zone: config.zone, rack: config.rack };
  const state = { ready: false, reason: 'the agent is opening its cache' };
  const addresses = { wire: [], control: '', health: healthAddress };
  const api = { apiVersion: controlApi.apiVersion, apiFeatures: [...controlApi.apiFeatures] };
  const self = { node, incarnation, installation: '', ...addresses, ...place, version, ...api, ...state };
  const members = new Membership({ store, session, logger, clock, takeoverMs, self });
  membership = members;
  stack.push('membership', () => members.close());

  const reason = () => reasons().join('; ');
  const standby = new StandbyAgent({ node, store, members, logger, clock, reason, goneGraceMs: pace.goneGraceMs });
  stack.push('view of the cluster', () => standby.close());
  const tcp =
    files === undefined || config.control.listen === undefined ? {} : { tcp: { listen: config.control.listen, files } };
  const prepare = sourcePreparer(config.origins, environment);
  const control = new ControlApi(standby, {
    socket: config.control.socket,
    cluster,
    secret: config.secret,
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
    control.answerBy(agent);
    // Its calls end before the rooms that answer them.
    stack.push('control API', closeControl);
    await standby.close();
  };
  const opened = { incarnation, listen, store, session, members, files };
  return { ...opened, health: healthAddress, control: control.tcpAddress, serve };
}

function notReady(membership: Membership): string[] {
  const { standing, self } = membership;
  const reasons = standing.kind === 'degraded' ? [standing.reason] : [];
  return self.ready ? reasons : [...reasons, self.reason];
}

/** Parts write to the store as they end; where it does not answer, each part would wait in its turn. */
async function leaveMuteStore(store: Store, logger: Logger): Promise<void> {
  try {
    await store.revision({ deadlineMs: muteStoreMs });
  } catch (thrown) {
    const error = HearthError.from(thrown);
    // It was closed meanwhile: everything has ended already.
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

/** Files of the control API's mutual TLS; undefined without a TCP address for it. */
function controlFiles(config: AgentConfig, logger: Logger, clock: Clock): TlsFiles | undefined {
  const { listen, certificate, key, clientAuthorities } = config.control;
  if (listen === undefined || certificate === undefined || key === undefined || clientAuthorities === undefined) {
    return undefined;
  }
  const named = (name: string, path: string) => ({ setting: `control.${name}`, path });
  const identity = { certificate: named('certificate', certificate), key: named('key', key) };
  return TlsFiles.open({ authorities: named('clientAuthorities', clientAuthorities), identity }, logger, { clock });
}

/** Where others reach the control API: on every address means on the first one that is published for bytes. */
function advertisedControl(listening: string, wire: readonly Address[]): string {
  const everywhere = /^(0\.0\.0\.0|\[::\]):(\d+)$/.exec(listening);
  const [first] = wire;
  if (everywhere === null || first === undefined) return listening;
  return formatEndpoint({ host: first.host, port: Number(everywhere[2]) });
}
