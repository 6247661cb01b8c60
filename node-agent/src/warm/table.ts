import { type Clock, epochMs, HearthError, type Logger } from '@hearth/common';
import { Mirror, RecordTable, TableWatch } from '../records/index.ts';
import type { Operation, Store } from '../store/index.ts';
import {
  type WarmDivisionRecord,
  type WarmJobRecord,
  type WarmProgressRecord,
  warmDivisionSchema,
  warmJobSchema,
  warmProgressSchema,
} from './record.ts';
import { type JobView, viewJob } from './state.ts';

/** A watch that lags longer than this has lost its store. */
const catchUpMs = 5_000;

/**
 * Warm jobs in the store: tables to write, mirrors to read. One watch feeds all mirrors, so a job appears as ended only
 * after its agents' earlier reports.
 */
export class WarmTables {
  readonly jobs;
  readonly progress;
  readonly divisions;
  readonly jobsMirror;
  readonly progressMirror;
  readonly divisionsMirror;
  readonly #watch: TableWatch;
  readonly #clock: Clock;

  constructor(store: Store, logger: Logger, clock: Clock) {
    this.#clock = clock;
    this.jobs = new RecordTable(store, 'warm/jobs/', warmJobSchema);
    this.progress = new RecordTable(store, 'warm/progress/', warmProgressSchema);
    this.divisions = new RecordTable(store, 'warm/division/', warmDivisionSchema);
    this.#watch = new TableWatch(store, 'warm/', logger, clock);
    this.jobsMirror = new Mirror(this.jobs, logger, this.#watch);
    this.progressMirror = new Mirror(this.progress, logger, this.#watch);
    this.divisionsMirror = new Mirror(this.divisions, logger, this.#watch);
  }

  async ready(signal: AbortSignal): Promise<void> {
    const mirrors = [this.jobsMirror, this.progressMirror, this.divisionsMirror];
    await Promise.all(mirrors.map((mirror) => mirror.ready(signal)));
  }

  /** Reads the job from the store, once the mirrors have caught up with all earlier writes. */
  async job(name: string): Promise<WarmJobRecord> {
    const row = await this.jobs.read(name);
    if (row !== undefined) {
      await this.jobsMirror.caughtUp(row.modRevision, this.#clock.timeout(catchUpMs));
      return row.value;
    }
    throw new HearthError('NotFound', `there is no warm job ${name}; hearth jobs lists all jobs`);
  }

  progressOf(job: WarmJobRecord): Map<string, WarmProgressRecord> {
    const found = job.nodes.map((node) => [node, this.progressAt(job, node)] as const);
    return new Map(found.filter((pair): pair is [string, WarmProgressRecord] => pair[1] !== undefined));
  }

  /** An agent's report on this job, ignoring reports on an earlier job of the same name. */
  progressAt(job: WarmJobRecord, node: string): WarmProgressRecord | undefined {
    const reported = this.progressMirror.get(progressId(job.name, node));
    return reported?.createdAt === 0 || reported?.createdAt === job.createdAt ? reported : undefined;
  }

  division(job: string): WarmDivisionRecord | undefined {
    return this.divisionsMirror.get(job);
  }

  view(job: WarmJobRecord, members: ReadonlySet<string>, goneGraceMs: number): JobView {
    const { name } = job;
    const [progress, division] = [this.progressOf(job), this.division(name)];
    return viewJob({ job, progress, division, members, now: epochMs(this.#clock), goneGraceMs });
  }

  /** Deletes all records of a job in one transaction. */
  deletion(job: string): Operation[] {
    return [
      { kind: 'delete', key: this.jobs.key(job) },
      { kind: 'delete', key: this.divisions.key(job) },
      { kind: 'deletePrefix', prefix: this.progress.key(`${job}/`) },
    ];
  }

  async close(): Promise<void> {
    await this.#watch.close();
  }
}

export function progressId(job: string, node: string): string {
  return `${job}/${node}`;
}
