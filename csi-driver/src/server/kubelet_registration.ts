import { join } from 'node:path';
import { type Clock, type Logger, sleep, systemClock } from '@hearth/common';
import { RegistrationService } from '../generated/kubelet/pluginregistration/api.ts';
import { driverName } from '../names.ts';
import type { CallHandlers } from './call_handlers.ts';
import { addService } from './csi_services.ts';
import { SocketServer } from './socket_server.ts';

export interface KubeletRegistrationOptions {
  /** The kubelet's `plugins_registry`. */
  directory: string;
  /** Path of the driver's own socket, as the kubelet sees it. */
  endpoint: string;
  handlers: CallHandlers;
  /** Milliseconds between two looks at the socket. */
  watchMs: number;
  /** Milliseconds until a refused registration is tried again. */
  retryMs: number;
  logger: Logger;
  clock?: Clock;
}

/**
 * Registers the driver with the kubelet, which watches its `plugins_registry`, asks whoever makes a socket there for name and
 * endpoint, and answers whether that was accepted
 * (https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/pluginmanager/pluginwatcher/README.md). A new
 * socket file is a new registration; removing it ends it.
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

  /** True when the kubelet's last answer accepted the driver. */
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

  /** Registers once more: the kubelet asks a driver for its topology only then. */
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
