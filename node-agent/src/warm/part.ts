import { epochMs, HearthError, sleep, within } from '@hearth/common';
import type { WarmProgress } from '@hearth/engine';
import type { AgentContext } from '../context.ts';
import { chooseFiles, type ManifestKeeper } from '../datasets/index.ts';
import type { Pins } from '../pins/index.ts';
import { abortError } from '../records/index.ts';
import type { NodeState, WarmJobRecord, WarmProgressRecord } from './record.ts';
import { SpeedMeter } from './speed.ts';
import { emptyProgress, hasEnded } from './state.ts';
import { progressId, type WarmTables } from './table.ts';

/** Interval between looks at the engine, ms; bounds the accuracy of reported times. */
const pollMs = 100;

/** Owner of the job's pins: the named owner, else the job. */
function pinOwner({ name, pinOwner }: WarmJobRecord): string {
  return pinOwner === '' ? `job:${name}` : pinOwner;
}

/**
 * This agent's part of one warm job, from its manifest to its last report:
 * 1. open the manifest (from a peer if necessary); the patterns choose files;
 * 2. pin the files if the job pins, so that nothing is evicted meanwhile;
 * 3. let the engine warm; report changed progress at the configured interval, and at once when all is in memory;
 * 4. when all is stored, link the view and report the end. A cancelled or failed part releases the job's own pins; pins
 * of a named owner stay. A restart repeats these steps; the engine fetches only missing bytes.
 */
export class WarmPart {
  readonly job: WarmJobRecord;
  readonly ended: Promise<void>;
  readonly #context: AgentContext;
  readonly #tables: WarmTables;
  readonly #keeper: ManifestKeeper;
  readonly #pins: Pins;
  readonly #stop = new AbortController();
  readonly #speed = new SpeedMeter();
  /** The progress record in the store. */
  #written: WarmProgressRecord | undefined;
  #rate: bigint;
  #started = false;
  /** Times at which all was in memory, and stored, milliseconds since the epoch. */
  #inMemoryAt: number | undefined;
  #storedAt: number | undefined;

  constructor(job: WarmJobRecord, context: AgentContext, tables: WarmTables, keeper: ManifestKeeper, pins: Pins) {
    this.job = job;
    this.#context = context;
    this.#tables = tables;
    this.#keeper = keeper;
    this.#pins = pins;
    this.#rate = firstShare(job, tables.division(job.name)?.shares[context.node]);
    this.ended = this.#run();
  }

  /** Limits reads from the origin to `rate` bytes a second from now on. */
  setRate(rate: bigint): void {
    if (rate === this.#rate || rate === 0n) return;
    this.#rate = rate;
    if (this.#started) this.#context.engine.setWarmRate(this.job.name, rate);
  }

  /** Ends the part for this reason; `ended` resolves when the engine has stopped and the end is reported. */
  cancel(reason: HearthError): void {
    this.#stop.abort(reason);
  }

  async #run(): Promise<void> {
    const { logger } = this.#context;
    const name = this.job.name;
    const signal = this.#stop.signal;
    const cancelDeadline = this.#startDeadline();
    let error: HearthError | undefined;
    let last: WarmProgress | undefined;
    try {
      await this.#begin(signal);
      last = await this.#follow(signal);
      if (last.state === 'failed')
        error = new HearthError(last.error?.code ?? 'Internal', last.error?.message ?? 'the engine gave no reason');
      if (last.state === 'cancelled') error = new HearthError('Cancelled', 'cancelled in the engine');
    } catch (thrown) {
      error = HearthError.from(thrown);
    }
    cancelDeadline?.();
    try {
      last = await this.#endInEngine(last);
      if (error !== undefined && this.job.pin && this.job.pinOwner === '' && !isSuspension(error))
        await this.#pins.unpin(this.job.dataset, pinOwner(this.job));
      if (error === undefined) await this.#stored();
      else {
        const level = error.code === 'Cancelled' ? 'info' : 'warn';
        logger.log(level, 'a warm job stopped early on this node', { job: name, error });
      }
      if (error === undefined || !isSuspension(error))
        await this.#report(this.#record(endState(error), last, error), true);
    } catch (thrown) {
      logger.error('failed to report the end of a warm job', { job: name, error: HearthError.from(thrown) });
    }
  }

  #startDeadline(): (() => void) | undefined {
    const { deadlineAt } = this.job;
    if (deadlineAt === undefined) return undefined;
    const { clock } = this.#context;
    const late = new HearthError('DeadlineExceeded', 'the deadline of the job passed');
    return clock.schedule(Math.max(0, deadlineAt - epochMs(clock)), () => this.cancel(late));
  }

  /** Ready for every job that does not wait for memory only. */
  async #stored(): Promise<void> {
    const now = () => epochMs(this.#context.clock);
    // Between two looks the last bytes may have reached memory and disk.
    this.#inMemoryAt ??= now();
    await this.#linkView();
    this.#storedAt = now();
  }

  /** Links a complete dataset as a tree, so that mounts need no FUSE; on failure mounts use FUSE. */
  async #linkView(): Promise<void> {
    if (this.job.paths.length > 0 || this.job.advice === 'cluster') return;
    try {
      await this.#context.engine.buildView(this.job.manifest);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      this.#context.logger.info('failed to make a view of a dataset; pods read it through FUSE', {
        dataset: this.job.dataset,
        error,
      });
    }
  }

  async #begin(signal: AbortSignal): Promise<void> {
    const { engine, node, clock, timings } = this.#context;
    const { name, dataset, manifest, paths, priority, verify, readyWhen, advice, nodes } = this.job;
    await this.#report({ ...emptyProgress(this.job, node), state: 'Running' }, false);
    await this.#keeper.opened(manifest, within(clock, timings.goneGraceMs, signal));
    const { entries } = await chooseFiles(engine, { name: dataset, manifest, bytes: 0n }, paths);
    if (this.job.pin) await this.#pins.pin({ dataset, manifest, paths, owner: pinOwner(this.job) }, signal);
    if (signal.aborted) throw abortError(signal);
    await engine.warm({
      job: name,
      manifest,
      dataset,
      ...(entries === undefined ? {} : { entries }),
      priority,
      rateLimit: this.#rate,
      peerRateLimit: this.job.peerRateLimit,
      verify,
      memory: readyWhen === 'memory',
      hasDeadline: this.job.deadlineAt !== undefined,
      ...(advice === undefined ? {} : { advice: advice === 'cluster' ? { agents: nodes } : {} }),
    });
    this.#started = true;
    // The rate may have changed while the engine started.
    if (this.job.rateLimit > 0n) engine.setWarmRate(name, this.#rate);
  }

  /** Looks more often than it reports, for accurate times without load on the store. */
  async #follow(signal: AbortSignal): Promise<WarmProgress> {
    const { engine, clock, timings } = this.#context;
    let reportedAt = Number.NEGATIVE_INFINITY;
    for (;;) {
      const progress = await engine.warmProgress(this.job.name);
      if (progress.state !== 'running' && progress.state !== 'verifying') return progress;
      if (signal.aborted) throw abortError(signal);
      const arrived = this.#inMemoryAt === undefined && progress.bytesInMemory >= progress.bytesTotal;
      if (arrived) this.#inMemoryAt = epochMs(clock);
      if (arrived || clock.now() - reportedAt >= timings.progressMs) {
        reportedAt = clock.now();
        const state = progress.state === 'running' ? 'Running' : 'Verifying';
        await this.#report(this.#record(state, progress, undefined), false);
      }
      await sleep(clock, Math.min(pollMs, timings.progressMs), signal);
    }
  }

  /** Cancels and forgets the engine's job. Returns its last progress. */
  async #endInEngine(last: WarmProgress | undefined): Promise<WarmProgress | undefined> {
    if (!this.#started) return last;
    this.#started = false;
    const { engine } = this.#context;
    const before = await engine.warmProgress(this.job.name);
    if (before.state === 'running' || before.state === 'verifying') {
      await engine.cancelWarm(this.job.name);
      while (['running', 'verifying'].includes((await engine.warmProgress(this.job.name)).state)) {
        await sleep(this.#context.clock, 20);
      }
    }
    const progress = await engine.warmProgress(this.job.name);
    await engine.cancelWarm(this.job.name);
    return progress;
  }

  #record(state: NodeState, progress: WarmProgress | undefined, error: HearthError | undefined): WarmProgressRecord {
    const base = emptyProgress(this.job, this.#context.node);
    const from = progress === undefined ? {} : { ...numbersOf(progress), message: progress.waitingFor };
    const failure = error === undefined ? {} : { errorCode: error.code, message: error.message };
    const bytesPerSecond = hasEnded(state)
      ? 0n
      : this.#speed.note(progress?.bytesReady ?? 0n, this.#context.clock.now());
    // Readers cannot rely on bytes of a failed part, not even in memory.
    const times = error === undefined ? { inMemoryAt: this.#inMemoryAt, storedAt: this.#storedAt } : {};
    return { ...base, ...from, ...failure, ...times, state, bytesPerSecond };
  }

  /** A failed write of progress is repaired by the next one; a final report is retried until written. */
  async #report(record: WarmProgressRecord, final: boolean): Promise<void> {
    if (!final && this.#written !== undefined && sameProgress(this.#written, record)) return;
    const { clock, timings } = this.#context;
    const deadline = clock.timeout(timings.goneGraceMs);
    for (;;) {
      try {
        await this.#write(record);
        this.#written = record;
        return;
      } catch (thrown) {
        this.#context.logger.warn('failed to write the progress of a warm job', {
          job: record.job,
          error: HearthError.from(thrown),
        });
        if (!final || deadline.aborted || HearthError.from(thrown).code === 'Cancelled') return;
        await sleep(clock, timings.progressMs, deadline);
      }
    }
  }

  /** Leaves no record of a job deleted meanwhile. */
  async #write(record: WarmProgressRecord): Promise<void> {
    const compare = [{ key: this.#tables.jobs.key(record.job), exists: true }];
    const put = this.#tables.progress.putOperation(progressId(record.job, record.node), record);
    await this.#context.store.transact({ compare, success: [put] });
  }
}

/** The agent stops but the job does not: it continues after the restart, so no final report is written. */
export const suspension = new HearthError('Cancelled', 'the agent is ending');

function isSuspension(error: HearthError): boolean {
  return error === suspension;
}

function endState(error: HearthError | undefined): NodeState {
  if (error === undefined) return 'Succeeded';
  return error.code === 'Cancelled' ? 'Cancelled' : 'Failed';
}

/** Until the coordinator divides the rate, each agent takes an even share, so the sum stays within the limit. */
function firstShare(job: WarmJobRecord, share: bigint | undefined): bigint {
  if (job.rateLimit === 0n) return 0n;
  const even = job.rateLimit / BigInt(job.nodes.length);
  return share ?? (even > 0n ? even : 1n);
}

function numbersOf({
  bytesTotal,
  bytesReady,
  bytesInMemory,
  filesTotal,
  filesReady,
  filesVerified,
  originBytes,
  peerBytes,
  bytesVerified,
}: WarmProgress) {
  const files = { filesTotal, filesReady, filesVerified };
  return { bytesTotal, bytesReady, bytesInMemory, ...files, originBytes, peerBytes, bytesVerified };
}

function sameProgress(a: WarmProgressRecord, b: WarmProgressRecord): boolean {
  return (Object.keys(b) as (keyof WarmProgressRecord)[]).every((key) => a[key] === b[key]);
}
