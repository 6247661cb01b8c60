import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '@hearth/common';
import { type RegistrationServer, RegistrationService } from '../generated/kubelet/pluginregistration/api.ts';
import { driverName } from '../names.ts';
import { type CallHandlers, SocketServer } from '../server/index.ts';

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
}

/**
 * Registers the driver at the kubelet: it watches its `plugins_registry`, asks whoever makes a socket there for name
 * and endpoint, and answers whether that was accepted
 * (https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/pluginmanager/pluginwatcher/README.md). A new
 * socket file is a new registration; removing it ends it.
 */
export class KubeletRegistration {
  readonly #options: KubeletRegistrationOptions;
  readonly #server: SocketServer;
  readonly #ending = new AbortController();
  #registered = false;

  constructor(options: KubeletRegistrationOptions) {
    this.#options = options;
    const { handlers, endpoint, watchMs, logger } = options;
    const implementation: RegistrationServer = {
      getInfo: handlers.unary('GetInfo', () => ({
        type: 'CSIPlugin',
        name: driverName,
        endpoint,
        supportedVersions: ['1.0.0'],
      })),
      notifyRegistrationStatus: handlers.unary('NotifyRegistrationStatus', ({ pluginRegistered, error }) => {
        this.#noteStatus(pluginRegistered, error);
        return {};
      }),
    };
    this.#server = new SocketServer({
      socket: join(options.directory, `${driverName}-reg.sock`),
      services: (server) => server.addService(RegistrationService, implementation),
      watchMs,
      logger,
    });
  }

  /** Whether the kubelet accepted the driver when it said something last. */
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

  #noteStatus(registered: boolean, reason: string): void {
    const { logger } = this.#options;
    this.#registered = registered;
    if (registered) {
      logger.info('the kubelet registered the driver', { driver: driverName });
    } else {
      logger.error('the kubelet refused the driver; it is tried again', { reason });
      void this.#tryAgain();
    }
  }

  async #tryAgain(): Promise<void> {
    try {
      await sleep(this.#options.retryMs, undefined, { signal: this.#ending.signal, ref: false });
    } catch {
      return;
    }
    await this.#server.renew();
  }
}
