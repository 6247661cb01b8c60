import { join } from 'node:path';
import { type Clock, type Logger, sleep, systemClock } from '@hearth/common';
import { RegistrationService } from '../generated/kubelet/pluginregistration/api.ts';
import { driverName } from '../names.ts';
import type { CallHandlers } from './call_handlers.ts';
import { addService } from './csi_services.ts';
import { SocketServer } from './socket_server.ts';

export interface KubeletRegistrationOptions {
  directory: string;
  /** The driver's socket, as the kubelet sees it. */
  endpoint: string;
  handlers: CallHandlers;
  watchMs: number;
  retryMs: number;
  logger: Logger;
  clock?: Clock;
}

/**
 * A new socket file in `plugins_registry` registers the driver, its removal unregisters
 * (kubernetes/pkg/kubelet/pluginmanager/pluginwatcher/README.md).
 */
export class KubeletRegistration {
  readonly #options: Required<KubeletRegistrationOptions>;
  readonly #server: SocketServer;
  readonly #ending = new AbortController();
  #registered = false;

  constructor(options: KubeletRegistrationOptions) {
    this.#options = { clock: systemClock, ...options };
    const { handlers, endpoint, watchMs, logger, clock } = this.#options;
    this.#server = new SocketServer({
      socket: join(options.directory, `${driverName}-reg.sock`),
      services: (server) =>
        addService(server, handlers, RegistrationService, {
          getInfo: () => ({ type: 'CSIPlugin', name: driverName, endpoint, supportedVersions: ['1.0.0'] }),
          notifyRegistrationStatus: ({ pluginRegistered, error }) => this.#noteStatus(pluginRegistered, error),
        }),
      watchMs,
      logger,
      clock,
    });
  }

  get registered(): boolean {
    return this.#registered;
  }

  async start(): Promise<void> {
    await this.#server.listen();
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#server.close(1000);
  }

  /** Registers again: the kubelet reads the topology only at registration. */
  async renew(): Promise<void> {
    await this.#server.renew();
  }

  #noteStatus(registered: boolean, reason: string): object {
    const { logger } = this.#options;
    this.#registered = registered;
    if (registered) {
      logger.info('the kubelet registered the driver', { driver: driverName });
    } else {
      logger.error('the kubelet refused to register the driver; retrying', { reason });
      void this.#tryAgain();
    }
    return {};
  }

  async #tryAgain(): Promise<void> {
    const { clock, retryMs } = this.#options;
    await sleep(clock, retryMs, this.#ending.signal);
    if (!this.#ending.signal.aborted) await this.#server.renew();
  }
}
