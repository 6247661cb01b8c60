import { type Clock, createLogger, HearthError, type Logger, systemClock, within } from '@hearth/common';
import type { Engine, EngineOptions } from '@hearth/engine';
import { Agent } from '../agent/index.ts';
import { CacheCheck, CacheWatch, type DirectoryFailure } from '../cache/index.ts';
import { machineProbe } from '../capabilities/index.ts';
import type { AgentConfig } from '../config/index.ts';
import { type AgentContext, defaultTimings, type Timings } from '../context.ts';
import { advertisedAddresses } from './addresses.ts';
import { Closing } from './closing.ts';
import { ClusterView } from './cluster_view.ts';
import { EngineOpener } from './engine_opener.ts';
import { startFrontend } from './frontend.ts';
import { originOpener } from './sources.ts';
import { version } from './version.ts';

/** Bytes of path names granted for each entry of the limit on a dataset's entries. */
const nameBytesAnEntry = 256;

export interface RunOptions {
  /** Opens the native engine, or a fake one in tests. */
  engineFactory: (options: EngineOptions) => Promise<Engine>;
  /** Shuts the agent down cleanly. */
  signal: AbortSignal;
  /** Default: as configured, on standard error. */
  logger?: Logger;
  timings?: Timings;
  clock?: Clock;
  environment?: Readonly<Record<string, string | undefined>>;
  /**
   * Interval between checks of cache directories, and between attempts to open them. Tests shorten it; users cannot.
   */
  cacheLookMs?: number;
  /** Called once, when the agent serves. */
  onReady?: (running: RunningAgent) => void;
}

/** Addresses of a running agent, with their bound ports. */
export interface RunningAgent {
  agent: Agent;
  health: string;
  control: string | undefined;
}

const startDeadlineMs = 60_000;
const defaultCacheLookMs = 30_000;

/**
 * Runs an agent until the signal aborts: opens resources in order of dependence, serves, and closes in reverse order
 * within `shutdownDeadline`. Throws a `HearthError` that names the resource that could not be opened (a port in use, a
 * directory locked by another agent, an unreachable store), after closing everything else; with `onStartFailure: wait`
 * it waits for cache directories and the store instead. Mounts and warm jobs outlive the agent.
 */
export async function runAgent(config: AgentConfig, options: RunOptions): Promise<void> {
  const { level, format } = config.log;
  const logger = options.logger ?? createLogger({ level, format, fields: { node: config.node } });
  const stack = new Closing(logger, options.clock);
  try {
    const running = await startAgent(config, options, logger, stack);
    logger.info('the agent is ready', { version, health: running.health, socket: config.control.socket });
    options.onReady?.(running);
    await aborted(options.signal);
    logger.info('the agent is ending');
  } catch (thrown) {
    await stack
      .close(config.shutdownDeadline)
      .catch((error) => logger.error('failed to roll back a failed start completely', { error }));
    if (options.signal.aborted) return;
    throw HearthError.from(thrown);
  }
  await stack.close(config.shutdownDeadline);
}

/** Starts everything that needs no cache, then the cache and its users. */
async function startAgent(
  config: AgentConfig,
  options: RunOptions,
  logger: Logger,
  stack: Closing,
): Promise<RunningAgent> {
  const { cacheLookMs = defaultCacheLookMs, timings = defaultTimings, clock = systemClock } = options;
  const environment = options.environment ?? process.env;
  const { node } = config;
  const patient = config.onStartFailure === 'wait';
  const beginning = patient ? options.signal : within(clock, startDeadlineMs, options.signal);
  let agent: Agent | undefined;

  const presence = await startFrontend({ config, environment, timings, logger, clock }, stack);
  const { incarnation, listen, store, session, members, peers } = presence;

  const check = new CacheCheck(config);
  const opener = new EngineOpener({
    config,
    environment,
    incarnation,
    listen,
    check,
    logger,
    clock,
    factory: options.engineFactory,
  });
  const { engine, installation } = await opener.open({
    onEvent: (event) => agent?.onEvent(event),
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

  const { maxEntries } = config.origins;
  const listing = { entries: maxEntries, nameBytes: nameBytesAnEntry * maxEntries };
  const context: AgentContext = {
    node,
    installation,
    store,
    engine,
    session,
    members,
    logger,
    clock,
    timings,
    listing,
  };
  agent = new Agent(context, {
    openOrigin: originOpener(config, environment, clock),
    holder: config.holder.socket,
    volumes: config.volumes.directory,
    probe: machineProbe(config, environment),
    peers,
    storeMaintenance: config.storeMaintenance,
  });
  const started = agent;
  stack.push('agent', () => started.close());
  await agent.start(within(clock, startDeadlineMs, options.signal));

  await presence.serve(agent);
  const noteCache = (trouble: string | undefined) => members.setReady(trouble === undefined, trouble ?? '');
  const watch = new CacheWatch(check, () => refusedDirectories(engine), cacheLookMs, logger, noteCache, clock);
  stack.push('check of the cache', async () => watch.close());
  members.setReady(true, '');
  return { agent, health: presence.health, control: presence.control };
}

/** Directories of which the engine says that they take no new files. */
async function refusedDirectories(engine: Engine): Promise<DirectoryFailure[]> {
  const { directories } = await engine.statistics();
  return directories.flatMap(({ path, failure }) => (failure === '' ? [] : [{ path, reason: failure }]));
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
