import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Registry } from '@prometheus-io/client';
import { GateMetrics } from '../../operator/src/gates/index.ts';
import { PreloadMetrics } from '../../operator/src/preload/index.ts';
import { WebhookMetrics } from '../../operator/src/webhook/index.ts';

/** Metrics of the parts of an operator, served as by the operator, where there is no API server for an operator to work with. */
export class ServedOperatorMetrics implements AsyncDisposable {
  readonly gates: GateMetrics;
  readonly #server: Server;

  private constructor() {
    const registry = new Registry();
    const inTwoMonths = Date.now() / 1000 + 60 * 86_400;
    this.gates = new GateMetrics(registry, () => 1);
    new PreloadMetrics(registry, () => []);
    new WebhookMetrics(registry, () => inTwoMonths);
    this.#server = createServer(async (_, response) => {
      response.setHeader('content-type', registry.contentType).end(await registry.metrics());
    });
  }

  static async start(): Promise<ServedOperatorMetrics> {
    const served = new ServedOperatorMetrics();
    await new Promise<void>((resolve, reject) => {
      served.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return served;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
