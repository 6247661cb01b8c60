import { backOffMs, HearthError } from '@hearth/common';
import type { NodeReport, NodeReportMark } from '@hearth/common/generated/hearth/v1/control.ts';
import { type Clock, sleep } from '@hearth/common/kubernetes';
import type { AgentConnection, AgentEndpoint } from './agent_connection.ts';

const backOff = { firstMs: 250, longestMs: 30_000 };

export interface NodeReportsOptions {
  clock: Clock;
  /** The present connection to an agent. Throws while there are no certificates. */
  connection: (endpoint: AgentEndpoint) => AgentConnection;
  /** The last report of a node that was applied, at which a new stream begins. */
  known: (node: string) => NodeReportMark | undefined;
  onReport: (node: string, parts: readonly NodeReport[]) => void;
  /** A stream failed, and begins anew after a pause. */
  onFailure: (node: string, error: HearthError) => void;
}

/** One stream of reports from each agent, which goes on where it ended. */
export class NodeReports {
  readonly #options: NodeReportsOptions;
  readonly #streams = new Map<string, { address: string; ending: AbortController; ended: Promise<void> }>();
  /** Nodes that have neither reported nor failed yet. */
  readonly #awaited = new Set<string>();
  /** Resolves when `#awaited` becomes empty. */
  #settled = Promise.withResolvers<void>();

  constructor(options: NodeReportsOptions) {
    this.#options = options;
  }

  /** Ends streams that are no longer wanted, and begins those that are missing. */
  follow(endpoints: readonly AgentEndpoint[], intervalMs: number): void {
    const wanted = new Map(endpoints.map((endpoint) => [endpoint.node, endpoint]));
    for (const [node, { address, ending }] of this.#streams) {
      if (wanted.get(node)?.address === address) continue;
      ending.abort();
      this.#streams.delete(node);
      this.#heard(node);
    }
    for (const endpoint of wanted.values()) {
      if (this.#streams.has(endpoint.node)) continue;
      const ending = new AbortController();
      if (this.#awaited.size === 0) this.#settled = Promise.withResolvers();
      this.#awaited.add(endpoint.node);
      const ended = this.#run(endpoint, intervalMs, ending.signal);
      this.#streams.set(endpoint.node, { address: endpoint.address, ending, ended });
    }
  }

  /** Resolves once each agent that is followed has reported or failed. */
  async settled(): Promise<void> {
    if (this.#awaited.size > 0) await this.#settled.promise;
  }

  async close(): Promise<void> {
    const streams = [...this.#streams.values()];
    this.follow([], 0);
    await Promise.all(streams.map(({ ended }) => ended));
  }

  async #run(endpoint: AgentEndpoint, intervalMs: number, signal: AbortSignal): Promise<void> {
    const { clock, onFailure } = this.#options;
    let failures = 0;
    while (!signal.aborted) {
      try {
        for await (const parts of this.#reports(endpoint, intervalMs, signal)) {
          if (signal.aborted) return;
          failures = 0;
          this.#options.onReport(endpoint.node, parts);
          this.#heard(endpoint.node);
        }
      } catch (thrown) {
        if (signal.aborted) return;
        onFailure(endpoint.node, HearthError.from(thrown));
      }
      this.#heard(endpoint.node);
      await sleep(clock, backOffMs(clock, failures++, backOff), signal);
    }
  }

  /** Whole reports, put together from their parts. */
  async *#reports(endpoint: AgentEndpoint, intervalMs: number, signal: AbortSignal): AsyncGenerator<NodeReport[]> {
    const { connection, known } = this.#options;
    const request = { intervalMs, known: known(endpoint.node), once: false, datasets: [] };
    let parts: NodeReport[] = [];
    for await (const part of connection(endpoint).stream('watchNode', request, undefined, signal)) {
      parts.push(part);
      if (part.more) continue;
      yield parts;
      parts = [];
    }
  }

  #heard(node: string): void {
    if (this.#awaited.delete(node) && this.#awaited.size === 0) this.#settled.resolve();
  }
}
