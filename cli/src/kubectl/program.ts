import { Command } from 'commander';
import { ownVersion } from '../commands/version.ts';
import type { ActionContext } from '../output.ts';
import { withConventions, withOutputOptions } from '../program_conventions.ts';
import { agentCommands, execCommand } from './commands/agent_command.ts';
import { doctorCommand } from './commands/doctor.ts';
import { explainCommand } from './commands/explain.ts';
import { statusCommand } from './commands/status.ts';
import { supportBundleCommand } from './commands/support_bundle.ts';
import { topCommand } from './commands/top.ts';
import { uiCommand } from './commands/ui.ts';
import { warmCommand } from './commands/warm.ts';

/** The bundler defines the version, since the bundle has no package.json. */
declare const HEARTH_VERSION: string | undefined;

export function kubectlProgram(context: ActionContext): Command {
  const version = typeof HEARTH_VERSION === 'string' ? HEARTH_VERSION : ownVersion();
  const own = [
    explainCommand(context),
    statusCommand(context),
    warmCommand(context),
    uiCommand(context),
    topCommand(context),
    doctorCommand(context),
    supportBundleCommand(context, version),
  ];
  const program = withClusterOptions(new Command(context.terminal.program))
    .description('Inspect Hearth in a cluster from any machine, through the Kubernetes API server.')
    .version(version, '--version', 'show the version')
    // Words after a command that an agent runs belong to that command.
    .enablePositionalOptions()
    .helpCommand('help [command]', 'Show help of a command.')
    .commandsGroup('Through the API server:');
  for (const command of own) program.addCommand(withHiddenOptions(command));
  program.commandsGroup("In an agent's pod, as in `hearth`:").addCommand(execCommand(context));
  for (const command of agentCommands(context)) program.addCommand(command);
  return withConventions(program, context.terminal);
}

function withClusterOptions(command: Command): Command {
  return withOutputOptions(
    command
      .option('--kubeconfig <path>', 'kubeconfig (default: $KUBECONFIG, else ~/.kube/config)')
      .option('--context <name>', 'context of the kubeconfig (default: the current one)')
      .option('-n, --namespace <namespace>', 'namespace of pods, Datasets and CachePreloads'),
  );
}

/** Accepts the program's options after a command, too; help lists them once. */
function withHiddenOptions(command: Command): Command {
  const ownOptions = new Set(command.options);
  for (const option of withClusterOptions(command).options) {
    if (!ownOptions.has(option)) option.hideHelp();
  }
  return command;
}
