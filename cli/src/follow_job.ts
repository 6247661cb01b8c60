import { errorTable, HearthError, isErrorCode } from '@hearth/common';
import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { AgentClient } from './client/agent_client.ts';
import { ReconnectTimeout } from './client/reconnect_timeout.ts';
import { printable } from './format/paint.ts';
import { jobLine, renderJob } from './format/progress.ts';
import { LiveRegion } from './live_region.ts';
import type { Session } from './session.ts';

const logMilliseconds = 5000;

/** State that ends the following: the job has ended, or is ready by its own --ready-when. */
export type Until = 'ended' | 'ready';

/**
 * Shows a job until the given state and returns the exit code. Waits for an agent that goes away. On an interrupt the
 * job continues: prints its name and how to cancel it, and returns the code of `Cancelled`.
 */
export async function followJob(
  session: Session,
  agent: AgentClient,
  name: string,
  until: Until = 'ended',
): Promise<number> {
  const { interrupt, clock } = session.terminal;
  const display = session.json ? jsonDisplay(session) : terminalDisplay(session);
  const reconnect = new ReconnectTimeout(session.timeoutMilliseconds, interrupt, clock);
  let last: WarmJob | undefined;
  for (;;) {
    try {
      for await (const job of agent.stream('watchWarmJob', { name })) {
        reconnect.answered();
        display.show(job);
        last = job;
        if (until === 'ready' && job.ready) break;
      }
      break;
    } catch (thrown) {
      display.pause();
      if (interrupt.aborted) return detached(session, name);
      // The job may not exist until the first answer arrives.
      if (last === undefined) throw thrown;
      try {
        await reconnect.retry(thrown, () => session.note('The agent went away; waiting for it to come back.'));
      } catch (lost) {
        if (interrupt.aborted) return detached(session, name);
        throw lost;
      }
    }
  }
  display.pause();
  if (last === undefined) throw new HearthError('ProtocolError', `the agent reported nothing about the job ${name}`);
  if (last.ready && !hasEnded(last)) return goesOn(session, last);
  return outcome(last);
}

interface Display {
  show(job: WarmJob): void;
  /** Keeps the current frame on the screen before other output. */
  pause(): void;
}

function jsonDisplay(session: Session): Display {
  return { show: (job) => session.printJson(job), pause: () => undefined };
}

function terminalDisplay(session: Session): Display {
  const { terminal } = session;
  const region = new LiveRegion(terminal);
  let loggedAt = Number.NEGATIVE_INFINITY;
  let loggedStep = '';
  return {
    pause: () => region.end(),
    show: (job) => {
      const ended = hasEnded(job);
      if (terminal.interactive) {
        const style = { columns: terminal.columns(), rows: terminal.rows() - 1 };
        region.draw(renderJob(job, { ...style, colour: terminal.colour, unicode: terminal.unicode }));
        if (ended) region.end();
        return;
      }
      const step = `${job.state} ${job.inMemoryAt}`;
      if (!ended && step === loggedStep && terminal.clock.now() - loggedAt < logMilliseconds) return;
      session.print(jobLine(job));
      loggedAt = terminal.clock.now();
      loggedStep = step;
    },
  };
}

function detached(session: Session, name: string): number {
  const program = session.terminal.program;
  session.note(
    `The job ${printable(name)} continues. Follow it with \`${program} job watch ${printable(name)}\`, cancel it with \`${program} job cancel ${printable(name)}\`.`,
  );
  return errorTable.Cancelled.exit;
}

function goesOn(session: Session, { name }: WarmJob): number {
  session.note(
    `The job ${printable(name)} is ready in memory and continues until everything is stored; \`${session.terminal.program} job watch ${printable(name)}\` follows it.`,
  );
  return errorTable.Ok.exit;
}

function hasEnded(job: WarmJob): boolean {
  return job.state === 'Succeeded' || job.state === 'Failed' || job.state === 'Cancelled';
}

/** Exit code of an ended job; throws the job's failure. */
function outcome(job: WarmJob): number {
  switch (job.state) {
    case 'Succeeded':
      return errorTable.Ok.exit;
    case 'Cancelled':
      throw new HearthError(
        'Cancelled',
        `the job ${job.name} was cancelled${job.message === '' ? '' : `: ${job.message}`}`,
      );
    case 'Failed': {
      const code = isErrorCode(job.errorCode) && job.errorCode !== 'Ok' ? job.errorCode : 'Internal';
      throw new HearthError(code, `the job ${job.name} failed: ${job.message || 'hearth job show says more'}`);
    }
    default:
      throw new HearthError(
        'Unavailable',
        `the agent stopped reporting the job ${job.name} while it was ${job.state}; try job watch`,
      );
  }
}
