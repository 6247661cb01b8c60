import { Command, type Option } from 'commander';
import { adviseCommand } from './commands/advise.ts';
import { agentCommand } from './commands/agent.ts';
import { benchCommand } from './commands/bench.ts';
import { catCommand } from './commands/cat.ts';
import { completeCommand, completionCommand } from './commands/completion.ts';
import { datasetCommand } from './commands/dataset.ts';
import { doctorCommand } from './commands/doctor.ts';
import { explainCommand } from './commands/explain.ts';
import { jobCommand, jobsCommand } from './commands/job.ts';
import { lsCommand } from './commands/ls.ts';
import { mountCommand, mountsCommand, umountCommand } from './commands/mount.ts';
import { evictCommand, pinCommand, unpinCommand } from './commands/placement.ts';
import { statusCommand } from './commands/status.ts';
import { tokenCommand } from './commands/token.ts';
import { verifyCommand } from './commands/verify.ts';
import { ownVersion, versionCommand } from './commands/version.ts';
import { warmCommand } from './commands/warm.ts';
import { firstLine } from './format/wrap.ts';
import { type CommandContext, defaultSocket, defaultTimeoutSeconds, wholeNumber } from './session.ts';

const longestTimeoutSeconds = 86_400;

/** The whole command tree. Errors are thrown: commander's own and `HearthError`. */
export function buildProgram(context: CommandContext): Command {
  const { terminal } = context;
  const program: Command = new Command(terminal.program)
    .description('Hearth keeps the bytes of models on the nodes that read them.')
    .version(ownVersion(), '--version', 'show the version')
    .option('--socket <path>', `socket of the agent to ask (default: $HEARTH_SOCKET, else ${defaultSocket})`)
    .option(
      '--timeout <seconds>',
      `how long the agent may take for one answer (default: ${defaultTimeoutSeconds})`,
      wholeNumber(1, longestTimeoutSeconds),
    )
    .option('--json', 'JSON on the standard output: one value, or one a line as they come')
    .commandsGroup('Datasets:')
    .addCommand(datasetCommand(context))
    .addCommand(lsCommand(context))
    .addCommand(catCommand(context))
    .addCommand(verifyCommand(context))
    .commandsGroup('Placement:')
    .addCommand(warmCommand(context))
    .addCommand(jobsCommand(context))
    .addCommand(jobCommand(context))
    .addCommand(pinCommand(context))
    .addCommand(unpinCommand(context))
    .addCommand(evictCommand(context))
    .addCommand(adviseCommand(context))
    .commandsGroup('Mounts:')
    .addCommand(mountCommand(context))
    .addCommand(umountCommand(context))
    .addCommand(mountsCommand(context))
    .commandsGroup('Kubernetes:')
    .addCommand(explainCommand(context))
    .commandsGroup('Cluster and node:')
    .addCommand(statusCommand(context))
    .addCommand(agentCommand(context))
    .addCommand(doctorCommand(context))
    .addCommand(benchCommand(context))
    .addCommand(tokenCommand(context))
    .commandsGroup('Other:')
    .helpCommand('help [command]', 'Show help of a command.')
    .addCommand(completionCommand(context, () => program))
    .addCommand(completeCommand(context), { hidden: true })
    .addCommand(versionCommand(context));
  everyCommand(program, (command) => {
    command
      .exitOverride()
      .configureOutput({
        writeOut: (text) => terminal.stdout.write(text),
        // Errors are thrown and written once, by the caller.
        writeErr: () => undefined,
        getOutHelpWidth: () => Math.min(terminal.columns(), 120),
        getErrHelpWidth: () => Math.min(terminal.columns(), 120),
        getOutHasColors: () => terminal.colour,
        getErrHasColors: () => false,
      })
      .summary(firstLine(command.description()))
      .configureHelp({
        showGlobalOptions: true,
        visibleGlobalOptions: (shown) => (shown.parent === null ? [] : globalOptions(program)),
      })
      .helpOption('-h, --help', 'show help');
  });
  return program;
}

/** Options of every command; --version belongs to the program alone. */
function globalOptions(program: Command): Option[] {
  return program.options.filter((option) => option.long !== '--version');
}

function everyCommand(command: Command, visit: (command: Command) => void): void {
  visit(command);
  for (const child of command.commands) everyCommand(child, visit);
}
