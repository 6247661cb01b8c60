import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { HearthError } from '../error.ts';
import type { LogFields, Logger, LogLevel } from '../logger.ts';
import type { LeaderElectionOptions } from './leader_election.ts';

export type ElectionWorkerData = Omit<LeaderElectionOptions, 'api' | 'logger' | 'onLeader' | 'clock'> & {
  userAgent: string;
};

/** `ended`, `failed`: the work of the term. */
export type ToElection = 'stop' | 'ended' | 'failed';
export type FromElection =
  | { kind: 'won' }
  | { kind: 'lost' }
  | { kind: 'leader'; identity: string }
  | { kind: 'log'; level: LogLevel; message: string; fields: LogFields };

export interface ElectionThreadOptions extends ElectionWorkerData {
  logger: Logger;
  /** Called when the observed leader changes; '' when nobody leads. */
  onLeader?: ((identity: string) => void) | undefined;
}

/**
 * A LeaderElection in a thread of its own, with its own connection by the default configuration, so that a main thread
 * that decodes for seconds still renews its lease. A process that hangs keeps its lease until a liveness probe ends it.
 */
export class ElectionThread {
  readonly #options: ElectionThreadOptions;
  #leading = false;

  constructor(options: ElectionThreadOptions) {
    this.#options = options;
  }

  get isLeader(): boolean {
    return this.#leading;
  }

  /** Like LeaderElection.run. Throws `Internal` when the thread ends by an error, after the work of the term has ended. */
  async run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { logger, onLeader, ...data } = this.#options;
    // The sibling file in its current form: .ts in the repository, .js in the image.
    const file = new URL(`./election_worker${extname(import.meta.filename)}`, import.meta.url);
    const thread = new Worker(file, { workerData: data });
    const say = (message: ToElection) => thread.postMessage(message);
    const stop = () => say('stop');
    signal.addEventListener('abort', stop, { once: true });
    let term = new AbortController();
    let work: Promise<void> = Promise.resolve();
    const end = () => {
      this.#leading = false;
      term.abort();
    };
    thread.on('message', (message: FromElection) => {
      if (message.kind === 'leader') onLeader?.(message.identity);
      else if (message.kind === 'log') logger.log(message.level, message.message, message.fields);
      else if (message.kind === 'lost') end();
      else {
        term = new AbortController();
        this.#leading = true;
        work = this.#work(lead, term.signal).then(say);
      }
    });
    let failure: Error | undefined;
    thread.on('error', (error) => {
      failure = error as Error;
    });
    await new Promise<void>((resolve) => thread.once('exit', () => resolve()));
    signal.removeEventListener('abort', stop);
    end();
    await work;
    if (failure !== undefined) throw HearthError.from(failure).within('the thread of the leader election');
  }

  async #work(lead: (signal: AbortSignal) => Promise<void>, term: AbortSignal): Promise<ToElection> {
    try {
      await lead(term);
      return 'ended';
    } catch (thrown) {
      if (!term.aborted) this.#options.logger.error('a controller failed while this replica led', { error: thrown });
      return 'failed';
    } finally {
      this.#leading = false;
    }
  }
}
