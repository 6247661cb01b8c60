import { HearthError, type Logger } from '@hearth/common';

/** What was opened, to be closed in the reverse order; one that fails does not keep the others open. */
export class Closing {
  readonly #steps: { what: string; close: () => Promise<void> }[] = [];
  readonly #begins: (() => void)[] = [];
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  push(what: string, close: () => Promise<void>): void {
    this.#steps.push({ what, close });
  }

  /** Called when closing begins, before the first step; must neither throw nor wait. */
  onBegin(listener: () => void): void {
    this.#begins.push(listener);
  }

  /** `DeadlineExceeded` names what did not end in time. */
  async close(deadlineMs: number): Promise<void> {
    for (const begin of this.#begins.splice(0)) begin();
    let present = '';
    const all = (async () => {
      for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
        present = step.what;
        await step.close().catch((error) =>
          this.#logger.error('a part of the agent did not shut down cleanly', {
            what: present,
            error: HearthError.from(error),
          }),
        );
      }
      return true;
    })();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), deadlineMs);
    });
    const inTime = await Promise.race([all, late]);
    clearTimeout(timer);
    if (!inTime)
      throw new HearthError(
        'DeadlineExceeded',
        `the agent did not end within ${deadlineMs / 1000} s: its ${present} had not ended; what its cache had not recorded ` +
          'is fetched again. If its disk is that busy as a rule, raise shutdownDeadline',
      );
  }
}
