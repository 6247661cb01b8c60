import { once } from 'node:events';
import { Server, ServerCredentials, type ServerWritableStream, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { controlApi } from '@hearth/common';
import {
  ControlService,
  Dataset,
  GetStatusResponse,
  NodeReport,
  type WatchNodeRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { SecretTexts } from '../../kubernetes/index.ts';
import { nodeStatus } from './fake_agent.ts';

export interface ManyAgentsOptions {
  texts: SecretTexts;
  nodes: number;
  datasets: number;
  /** Datasets of which a node holds bytes. */
  resident: number;
}

const gib = 1n << 30n;
/** Datasets whose bytes have changed in each report after the first: the node is busy. */
const changedRows = 2;
const partRecords = 500;

/**
 * The streams of many agents from one server, which clients reach at many loopback addresses. A stream of a node does not
 * know whose it is: each reports other random Datasets.
 */
export class ManyAgents {
  readonly #options: ManyAgentsOptions;
  readonly #server = new Server();
  #streams = 0;
  port = 0;

  constructor(options: ManyAgentsOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { texts } = this.#options;
    const watchNode = (call: ServerWritableStream<WatchNodeRequest, NodeReport>) => void this.#watchNode(call);
    const watchStatus = (call: ServerWritableStream<unknown, GetStatusResponse>) => this.#watchStatus(call);
    this.#server.addService(ControlService, { watchNode, watchStatus } as unknown as UntypedServiceImplementation);
    const pair = { private_key: Buffer.from(texts['tls.key'] ?? ''), cert_chain: Buffer.from(texts['tls.crt'] ?? '') };
    const secure = ServerCredentials.createSsl(Buffer.from(texts['ca.crt'] ?? ''), [pair], true);
    this.port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync('0.0.0.0:0', secure, (error, port) => (error === null ? resolve(port) : reject(error)));
    });
  }

  #watchStatus(call: ServerWritableStream<unknown, GetStatusResponse>): void {
    const api = { apiVersion: controlApi.apiVersion, apiFeatures: [...controlApi.apiFeatures] };
    const wire = [{ host: '10.0.0.1', port: 7527 }];
    const nodes = names('n', this.#options.nodes).map((node) => nodeStatus(node, { ...api, wire }));
    const datasets = names('ns.model-', this.#options.datasets).map((name) =>
      Dataset.fromPartial({ name, state: 'Ready', manifest: 'a'.repeat(64), files: 10n, bytes: 100n * gib }),
    );
    const parts = Math.ceil(Math.max(nodes.length, datasets.length) / partRecords);
    for (let part = 0; part < parts; part++) {
      const slice = <T>(all: readonly T[]) => all.slice(part * partRecords, (part + 1) * partRecords);
      const gone = { nodesGone: [], datasetsGone: [], jobsGone: [] };
      const changes = { whole: part === 0, more: part < parts - 1, ...gone };
      const message = { ...GetStatusResponse.fromPartial({ cluster: 'models', node: 'n0', ...api }), changes };
      call.write({ ...message, nodes: slice(nodes), datasets: slice(datasets) });
    }
  }

  async #watchNode(call: ServerWritableStream<WatchNodeRequest, NodeReport>): Promise<void> {
    const { datasets, resident } = this.#options;
    const stream = this.#streams++;
    const held = Array.from({ length: resident }, (_, index) => `ns.model-${(stream * 7 + index * 11) % datasets}`);
    const holds = new Set(held);
    const row = (dataset: string) => ({
      dataset,
      residentBytes: holds.has(dataset) ? 1n + BigInt(Math.floor(Math.random() * 2 ** 36)) : 0n,
      memoryBytes: 0n,
      completeFiles: holds.has(dataset) ? 5n : 0n,
      pinned: false,
      dataPath: 'daemon',
      reason: '5 of 10 files are incomplete on this node',
      sourcesAside: [],
    });
    for (let sequence = 1n; !call.cancelled; sequence++) {
      const rows = sequence === 1n ? names('ns.model-', datasets) : held.slice(0, changedRows);
      const figures = { budgetBytes: 1000n * gib, usedBytes: sequence * gib, originBytes: sequence, startedAtMs: 1n };
      const report = NodeReport.fromPartial({
        mark: { incarnation: String(stream), sequence },
        whole: sequence === 1n,
        figures: figures as never,
      });
      call.write({ ...report, datasets: rows.map(row) });
      const pause = new AbortController();
      const timer = setTimeout(() => pause.abort(), call.request.intervalMs * (0.5 + Math.random()));
      await once(call, 'cancelled', { signal: pause.signal }).catch(() => undefined);
      clearTimeout(timer);
    }
  }
}

const names = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index}`);
