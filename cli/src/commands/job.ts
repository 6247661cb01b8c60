import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { Command } from 'commander';
import type { AgentClient } from '../client/agent_client.ts';
import { followJob } from '../follow_job.ts';
import { timeInMemory, timeStored } from '../format/arrival.ts';
import { printable, toneOf } from '../format/paint.ts';
import { renderJob } from '../format/progress.ts';
import { formatBytes, formatPercent, formatRate, formatSeconds, fractionOf } from '../format/quantity.ts';
import { act, type CommandContext, examples, type Session } from '../session.ts';
import { unlimitedColumns } from '../terminal.ts';

export function jobCommand(context: CommandContext): Command {
  return new Command('job')
    .description('See, follow and cancel warm jobs.')
    .addCommand(listCommand(context, 'ls'))
    .addCommand(
      named(context, 'show', 'Show one warm job with its nodes.', 'job show warm-llama-1', async (session, name) => {
        const job = await session.withAgent((agent) => agent.call('getWarmJob', { name }));
        printJob(session, job);
        return undefined;
      }),
    )
    .addCommand(
      named(context, 'watch', 'Follow a warm job to its end.', 'job watch warm-llama-1', (session, name) =>
        session.withAgent((agent: AgentClient) => followJob(session, agent, name)),
      ),
    )
    .addCommand(
      named(
        context,
        'cancel',
        'Cancel a warm job; fetched bytes stay in the caches.',
        'job cancel warm-llama-1',
        cancel,
      ),
    );
}

/** `hearth jobs`, short for `hearth job ls`. */
export function jobsCommand(context: CommandContext): Command {
  return listCommand(context, 'jobs');
}

async function cancel(session: Session, name: string): Promise<undefined> {
  const job = await session.withAgent((agent) => agent.call('cancelWarmJob', { name }));
  if (session.json) session.printJson(job);
  else session.print(`${printable(job.name)} is ${job.state}`);
}

function named(
  context: CommandContext,
  name: string,
  description: string,
  example: string,
  run: (session: Session, job: string) => Promise<number | undefined>,
): Command {
  return new Command(name)
    .description(description)
    .argument('<job>', 'name of the job')
    .addHelpText('after', examples(context, example))
    .action(act(context, (session: Session, _options: object, job: string) => run(session, job)));
}

function listCommand(context: CommandContext, name: string): Command {
  return new Command(name)
    .description('List warm jobs, running and recently ended.')
    .addHelpText('after', examples(context, name === 'ls' ? 'job ls' : 'jobs', 'jobs --json'))
    .action(
      act(context, async (session: Session) => {
        const { jobs } = await session.withAgent((agent) => agent.call('listWarmJobs', {}));
        if (session.json) session.printJson({ jobs });
        else if (jobs.length === 0) session.note('There are no warm jobs. Create one with `warm`.');
        else printJobs(session, jobs);
        return undefined;
      }),
    );
}

/** The table of `jobs` and `status`. */
export function printJobs(session: Session, jobs: WarmJob[]): void {
  session.printTable(
    [
      { title: 'JOB', value: (job) => job.name },
      { title: 'DATASET', value: (job) => job.dataset },
      { title: 'STATE', value: (job) => job.state, tone: (job) => toneOf(job.state) },
      { title: 'DONE', value: (job) => formatPercent(fractionOf(job.bytesReady, job.bytesTotal)), align: 'right' },
      { title: 'SIZE', value: (job) => formatBytes(job.bytesTotal), align: 'right' },
      { title: 'IN MEMORY', value: inMemory, omitEmpty: true, dispensable: 3 },
      { title: 'STORED', value: timeStored, omitEmpty: true, dispensable: 3 },
      {
        title: 'RATE',
        value: (job) => (job.bytesPerSecond > 0n ? formatRate(job.bytesPerSecond) : '-'),
        align: 'right',
      },
      { title: 'LEFT', value: (job) => (job.secondsLeft > 0n ? formatSeconds(job.secondsLeft) : '-'), align: 'right' },
      { title: 'NODES', value: (job) => String(job.nodes.length), align: 'right', dispensable: 1 },
      { title: 'CREATED', value: (job) => job.createdAt, dispensable: 2 },
      { title: 'MESSAGE', value: (job) => job.message, flexible: true, omitEmpty: true },
    ],
    jobs,
  );
}

/** The size in memory while incomplete, then the time since completion. */
function inMemory(job: WarmJob): string {
  const time = timeInMemory(job);
  if (time !== '' || job.bytesInMemory <= job.bytesReady) return time;
  return formatPercent(fractionOf(job.bytesInMemory, job.bytesTotal)).trim();
}

function printJob(session: Session, job: WarmJob): void {
  if (session.json) {
    session.printJson(job);
    return;
  }
  const { colour, unicode } = session.terminal;
  session.print(...renderJob(job, { columns: session.terminal.columns(), rows: unlimitedColumns, colour, unicode }));
  session.print(`Dataset ${printable(job.dataset)}, manifest ${job.manifest}, created ${job.createdAt}`);
  if (job.message !== '') session.print(printable(job.message));
}
