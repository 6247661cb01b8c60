import { type Clock, HearthError, type Logger, systemClock } from '@hearth/common';

/** Closes resources in reverse order of opening; a failure does not keep the others open. */
export class Closing {
  readonly #steps: { what: string; close: () => Promise<void> }[] = [];
  readonly #begins: (() => void)[] = [];
  readonly #logger: Logger;
  readonly #clock: Clock;

  constructor(logger: Logger, clock: Clock = systemClock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  push(what: string, close: () => Promise<void>): void {
    this.#steps.push({ what, close });
  }

  /** Called before the first step of closing; must neither throw nor block. */
  onBegin(listener: () => void): void {
    this.#begins.push(listener);
  }

  /** Throws `DeadlineExceeded` with the steps that did not end in time. */
  async close(deadlineMs: number): Promise<void> {
    for (const begin of this.#begins.splice(0)) begin();
    let present = '';
    const all = (async () => {
      for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
        present = step.what;
        await step.close().catch((error) =>
          this.#logger.error('failed to shut a part of the agent down cleanly', {
            what: present,
            error: HearthError.from(error),
          }),
        );
      }
      return true;
    })();
    const late = Promise.withResolvers<false>();
    const cancel = this.#clock.schedule(deadlineMs, () => late.resolve(false));
    const inTime = await Promise.race([all, late.promise]);
    cancel();
    if (!inTime)
      throw new HearthError(
        'DeadlineExceeded',
        `the agent did not end within ${deadlineMs / 1000} s: its ${present} had not ended; bytes that its cache had not recorded ` +
          'are fetched again. If its disk is often that busy, raise shutdownDeadline',
      );
  }
}
