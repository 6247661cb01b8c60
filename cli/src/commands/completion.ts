import { Argument, Command } from 'commander';
import { bashScript } from '../completion/bash.ts';
import { fishScript } from '../completion/fish.ts';
import { completionModel, type DynamicSubject, dynamicSubjects } from '../completion/model.ts';
import { zshScript } from '../completion/zsh.ts';
import { act, type CommandContext, examples, Session } from '../session.ts';

const writers = { bash: bashScript, zsh: zshScript, fish: fishScript };
type Shell = keyof typeof writers;

/** Short, because a shell waits at every press of the tab key. */
const completionSeconds = 2;

/** `program` returns the finished command tree. */
export function completionCommand(context: CommandContext, program: () => Command): Command {
  // kubectl completes plugins by its own mechanism; these scripts complete a single word.
  const word = context.terminal.program.replace(' ', '-');
  return new Command('completion')
    .description('Print a completion script, which asks the agent for names of datasets, jobs and nodes.')
    .addArgument(new Argument('<shell>', 'which shell').choices(Object.keys(writers)))
    .addHelpText(
      'after',
      `${examples(context, 'completion bash > /etc/bash_completion.d/hearth')}\n  source <(${word} completion bash)`,
    )
    .action(
      act(context, async (session: Session, _options: object, shell: Shell) => {
        session.print(writers[shell](word, completionModel(program())).trimEnd());
        return undefined;
      }),
    );
}

/** `hearth __complete`, called by the scripts: prints names, one a line, and nothing when no agent answers. */
export function completeCommand(context: CommandContext): Command {
  return new Command('__complete').addArgument(new Argument('<subject>').choices([...dynamicSubjects])).action(
    act(context, async (session: Session, _options: object, subject: DynamicSubject) => {
      const { terminal, socket } = session;
      const hurried = new Session(terminal, { socket, timeout: completionSeconds });
      // An error message would disturb the command line that the user is typing.
      const names = await namesOf(hurried, subject).catch(() => []);
      // Not every shell can offer names with blanks as one word.
      session.print(...names.filter((name) => /^\S+$/.test(name)));
      return undefined;
    }),
  );
}

async function namesOf(session: Session, subject: DynamicSubject): Promise<string[]> {
  return await session.withAgent(async (agent) => {
    switch (subject) {
      case 'datasets':
        return (await agent.call('listDatasets', { recordsOnly: true })).datasets.map((dataset) => dataset.name);
      case 'jobs':
        return (await agent.call('listWarmJobs', {})).jobs.map((job) => job.name);
      case 'nodes':
        return (await agent.call('getStatus', { recordsOnly: true })).nodes.map((node) => node.node);
      case 'mounts':
        return (await agent.call('listMounts', {})).mounts.map((mount) => mount.target);
    }
  });
}
