import { HearthError, type Logger } from '@hearth/common';
import type { NodeReport } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Member, Members } from '../context.ts';
import { Mirror } from '../records/index.ts';
import type { Store } from '../store/index.ts';
import { lacksReports, type NodeStatistics, statisticsTable } from './record.ts';
import { statisticsOf } from './report.ts';

/** Agents that are asked at a time. */
const maxAsked = 64;

/** Figures of several agents, by node. */
export interface GatheredStatistics {
  statistics: ReadonlyMap<string, NodeStatistics>;
  /** Reasons why an agent's figures are unknown. */
  missing: ReadonlyMap<string, string>;
}

export interface Wanted {
  /** Undefined: all members. */
  nodes?: readonly string[];
  /** Residency of these datasets only; undefined: of all. */
  datasets?: readonly string[];
}

/** Asks one other agent for a whole report. Throws `Unavailable` or `DeadlineExceeded` within seconds. */
export type AskNode = (node: string, datasets: readonly string[], signal: AbortSignal) => Promise<NodeReport[]>;

export interface ClusterStatisticsOptions {
  node: string;
  store: Store;
  members: Members;
  logger: Logger;
  /** This agent's own figures. */
  own: () => NodeStatistics | undefined;
  ask: AskNode;
}

/**
 * Figures of all agents. Keeps none of another agent: asks those that the caller needs, when they are needed, and reads
 * those of agents of an earlier release from the store.
 */
export class ClusterStatistics {
  readonly #options: ClusterStatisticsOptions;
  readonly #stored;

  constructor(options: ClusterStatisticsOptions) {
    this.#options = options;
    this.#stored = new Mirror(statisticsTable(options.store), options.logger);
  }

  async ready(signal: AbortSignal): Promise<void> {
    await this.#stored.ready(signal);
  }

  /** Never throws: an agent that does not answer is missing, with the reason. */
  async gather({ nodes, datasets = [] }: Wanted, signal: AbortSignal): Promise<GatheredStatistics> {
    const members = this.#options.members.all();
    const wanted = nodes === undefined ? members : members.filter(({ node }) => nodes.includes(node));
    const statistics = new Map<string, NodeStatistics>();
    const missing = new Map<string, string>();
    const waiting = [...wanted];
    const ask = async () => {
      for (let member = waiting.pop(); member !== undefined; member = waiting.pop()) {
        try {
          const known = await this.#of(member, datasets, signal);
          if (known !== undefined) statistics.set(member.node, known);
        } catch (thrown) {
          missing.set(member.node, HearthError.from(thrown).message);
        }
      }
    };
    await Promise.all(Array.from({ length: maxAsked }, ask));
    return { statistics, missing };
  }

  /** Figures that the store has: of agents of an earlier release. */
  stored(): GatheredStatistics {
    const rows = this.#options.members.all().flatMap((member): [string, NodeStatistics][] => {
      const known = lacksReports(member) ? this.#stored.get(member.node) : undefined;
      return known === undefined ? [] : [[member.node, known]];
    });
    return { statistics: new Map(rows), missing: new Map() };
  }

  /** Calls the listener after a change of what the store has. Returns a function that unsubscribes. */
  onStored(listener: () => void): () => void {
    return this.#stored.onChange(listener);
  }

  async close(): Promise<void> {
    await this.#stored.close();
  }

  /** Undefined for an agent that has no figures. */
  async #of(member: Member, datasets: readonly string[], signal: AbortSignal): Promise<NodeStatistics | undefined> {
    const { node, members, own, ask } = this.#options;
    if (member.node === node) return own();
    if (lacksReports(member)) return this.#stored.get(member.node);
    // An agent without a cache has no figures; its record says why it does not serve.
    if (!members.caching().has(member.node)) return undefined;
    return statisticsOf(member.node, await ask(member.node, datasets, signal));
  }
}
