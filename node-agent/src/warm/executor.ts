import { HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { ManifestKeeper } from '../datasets/index.ts';
import type { Pins } from '../pins/index.ts';
import { suspension, WarmPart } from './part.ts';
import type { WarmJobRecord } from './record.ts';
import { hasEnded } from './state.ts';
import type { WarmTables } from './table.ts';

/** Runs this agent's parts of all warm jobs: starts parts requested in the store, ends cancelled ones. */
export class WarmExecutor {
  readonly #context: AgentContext;
  readonly #tables: WarmTables;
  readonly #keeper: ManifestKeeper;
  readonly #pins: Pins;
  readonly #parts = new Map<string, WarmPart>();
  /** Parts that ended here, by job; the mirror may lag behind. */
  readonly #done = new Map<string, number>();
  readonly #offs: (() => void)[];
  #closed = false;

  /** The tables must be ready, so that a part that has ended is not started again. */
  constructor(context: AgentContext, tables: WarmTables, keeper: ManifestKeeper, pins: Pins) {
    this.#context = context;
    this.#tables = tables;
    this.#keeper = keeper;
    this.#pins = pins;
    this.#offs = [
      tables.jobsMirror.onChange(() => this.#reconcile()),
      tables.divisionsMirror.onChange(() => this.#applyRates()),
    ];
    this.#reconcile();
  }

  /** Number of jobs running here. */
  get running(): number {
    return this.#parts.size;
  }

  /** Stops all parts without ending their jobs; a restarted agent continues them. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const off of this.#offs) off();
    const parts = [...this.#parts.values()];
    for (const part of parts) part.cancel(suspension);
    await Promise.all(parts.map((part) => part.ended));
  }

  #reconcile(): void {
    if (this.#closed) return;
    for (const part of this.#parts.values()) {
      const job = this.#tables.jobsMirror.get(part.job.name);
      // A later job may reuse the name.
      if (job === undefined || job.createdAt !== part.job.createdAt)
        part.cancel(new HearthError('Cancelled', 'the job was removed'));
      else if (!isWanted(job)) part.cancel(new HearthError('Cancelled', 'the job was cancelled'));
    }
    for (const job of this.#tables.jobsMirror.values()) {
      if (!this.#parts.has(job.name) && this.#shouldRun(job)) this.#begin(job);
    }
    for (const name of this.#done.keys()) if (this.#tables.jobsMirror.get(name) === undefined) this.#done.delete(name);
    this.#applyRates();
  }

  #shouldRun(job: WarmJobRecord): boolean {
    const { node } = this.#context;
    if (!isWanted(job) || !job.nodes.includes(node) || this.#done.get(job.name) === job.createdAt) return false;
    const reported = this.#tables.progressAt(job, node);
    return reported === undefined || !hasEnded(reported.state);
  }

  #begin(job: WarmJobRecord): void {
    this.#context.logger.info('started a warm job on this node', { job: job.name, dataset: job.dataset });
    const part = new WarmPart(job, this.#context, this.#tables, this.#keeper, this.#pins);
    this.#parts.set(job.name, part);
    void part.ended.then(() => this.#ended(part));
  }

  #ended(part: WarmPart): void {
    this.#parts.delete(part.job.name);
    this.#done.set(part.job.name, part.job.createdAt);
    this.#reconcile();
  }

  #applyRates(): void {
    for (const part of this.#parts.values()) {
      const share = this.#tables.division(part.job.name)?.shares[this.#context.node];
      if (share !== undefined && part.job.rateLimit > 0n) part.setRate(share);
    }
  }
}

function isWanted(job: WarmJobRecord): boolean {
  return job.end === undefined && job.cancelledAt === undefined;
}
