import { totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { type Clock, HearthError, type Logger, sleep } from '@hearth/common';
import type { Address, Engine, EngineEvent, EngineOptions } from '@hearth/engine';
import type { CacheCheck } from '../cache/index.ts';
import { type AgentConfig, engineLimits, resolveAmount } from '../config/index.ts';
import { type Environment, proxiesOf } from '../origins/index.ts';
import { unlessAborted } from '../records/index.ts';
import { installationOf } from './installation.ts';

export interface EngineOpenerOptions {
  config: AgentConfig;
  /** Environment with the proxy variables. */
  environment: Environment;
  incarnation: string;
  /** Addresses of the wire protocol. */
  listen: readonly Address[];
  check: CacheCheck;
  logger: Logger;
  clock: Clock;
  factory: (options: EngineOptions) => Promise<Engine>;
}

export interface OpeningOptions {
  /** Receives all events except log lines, which begin before an agent exists to answer. */
  onEvent: (event: EngineEvent) => void;
  /** Called after every failed attempt. Throwing ends the attempts. */
  onFailure: (error: HearthError) => void;
  /** Pause between attempts, ms. */
  againMs: number;
  signal: AbortSignal;
}

export interface OpenedEngine {
  engine: Engine;
  /** Name of the first cache directory that the engine uses. */
  installation: string;
}

/**
 * Opens the engine on the cache directories and retries until it succeeds, so that disks can be repaired without a
 * restart.
 */
export class EngineOpener {
  readonly #options: EngineOpenerOptions;

  constructor(options: EngineOpenerOptions) {
    this.#options = options;
  }

  async open({ onEvent, onFailure, againMs, signal }: OpeningOptions): Promise<OpenedEngine> {
    const { logger, clock } = this.#options;
    let reported = '';
    for (;;) {
      signal.throwIfAborted();
      const trying = this.#try(onEvent);
      try {
        return await unlessAborted(trying, signal);
      } catch (thrown) {
        if (signal.aborted) {
          // A hanging disk must not block shutdown; if the open succeeds later, close the unused engine.
          void trying.then(({ engine }) => engine.close()).catch(() => undefined);
          throw thrown;
        }
        const error = HearthError.from(thrown);
        onFailure(error);
        if (error.message !== reported) logger.error('failed to open the cache; retrying', { error, againMs });
        reported = error.message;
      }
      await sleep(clock, againMs, signal);
    }
  }

  async #try(onEvent: (event: EngineEvent) => void): Promise<OpenedEngine> {
    const { config, environment, incarnation, listen, check, logger, factory } = this.#options;
    await check.prepare();
    const { directories } = await check.run();
    const engine = await factory({
      node: config.node,
      incarnation,
      cluster: config.cluster,
      secret: config.secret,
      listen: [...listen],
      cacheDirectories: directories,
      shards: config.engine.shards,
      originConnections: config.engine.originConnections,
      bufferBytes: config.engine.bufferBytes,
      memoryBytes: resolveAmount(config.engine.memoryBytes, BigInt(totalmem())),
      arenaPages: config.engine.pages,
      holder: config.holder.socket,
      clientSocket: config.clients.socket ?? '',
      volumeTails: config.volumes.tails ?? join(dirname(config.holder.socket), 'volumes'),
      scrubBytesPerSecond: config.engine.scrubRate,
      limits: engineLimits(config.limits),
      rdma: {
        use: config.engine.rdma,
        devices: config.engine.rdmaDevices,
        library: config.engine.rdmaLibrary ?? '',
      },
      certificateAuthorities: config.origins.certificateAuthorities ?? '',
      forbidPrivateAddresses: !config.origins.allowPrivate,
      allowedNetworks: config.origins.allowedNetworks,
      proxies: proxiesOf(environment),
      onEvent: (event) => {
        if (event.kind === 'log') logger.log(event.level, event.message, event.fields);
        else onEvent(event);
      },
    });
    try {
      const { directories: opened } = await engine.statistics();
      const usable = opened.find(({ failure }) => failure === '') ?? opened[0];
      return { engine, installation: await installationOf(usable?.path ?? '') };
    } catch (thrown) {
      await engine.close();
      throw thrown;
    }
  }
}
