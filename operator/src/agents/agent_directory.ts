import type { Logger } from '@hearth/common';
import { systemClock } from '@hearth/common/kubernetes';
import type { AgentEndpoint, ClientIdentity } from './agent_connection.ts';
import { AgentPool, type AgentPoolOptions } from './agent_pool.ts';
import type { Agents, ClusterAgents, ClusterStatus, StatusListener } from './agents.ts';

const defaultConnectMs = 5_000;

/** The agents of every cluster, configured by `connectAgents`. */
export class AgentDirectory implements Agents {
  readonly #options: Omit<AgentPoolOptions, 'cluster' | 'onStatus'>;
  readonly #pools = new Map<string, AgentPool>();
  readonly #listeners = new Set<StatusListener>();

  constructor(logger: Logger, { connectMs = defaultConnectMs, clock = systemClock } = {}) {
    this.#options = { logger, connectMs, clock };
  }

  get(cluster: string): ClusterAgents | undefined {
    return this.#pools.get(cluster);
  }

  onChange(listener: StatusListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Adds or updates a cluster. Cheap without changes. */
  configure(cluster: string, identity: ClientIdentity, endpoints: readonly AgentEndpoint[]): void {
    let pool = this.#pools.get(cluster);
    if (pool === undefined) {
      const onStatus = (before: ClusterStatus | undefined, after: ClusterStatus | undefined) =>
        this.#notify(cluster, before, after);
      pool = new AgentPool({ ...this.#options, cluster, onStatus });
      this.#pools.set(cluster, pool);
    }
    pool.configure(identity, endpoints);
  }

  async forget(cluster: string): Promise<void> {
    const pool = this.#pools.get(cluster);
    this.#pools.delete(cluster);
    await pool?.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.keys()].map((cluster) => this.forget(cluster)));
  }

  #notify(cluster: string, before: ClusterStatus | undefined, after: ClusterStatus | undefined): void {
    for (const listener of this.#listeners) {
      try {
        listener(cluster, before, after);
      } catch (error) {
        this.#options.logger.error('a listener to the status of agents failed', { cluster, error });
      }
    }
  }
}
