import { Command } from 'commander';
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
import { revocationCommand } from './commands/revocation.ts';
import { statusCommand } from './commands/status.ts';
import { tokenCommand } from './commands/token.ts';
import { verifyCommand } from './commands/verify.ts';
import { ownVersion, versionCommand } from './commands/version.ts';
import { volumeCommand } from './commands/volume.ts';
import { warmCommand } from './commands/warm.ts';
import { withConventions, withOutputOptions } from './program_conventions.ts';
import type { ProgramBuilder } from './run.ts';
import { type AgentRunner, type CommandContext, defaultSocket } from './session.ts';

/** The program `hearth`. Loads the agent's settings only for command lines that may concern the agent. */
export function hearthProgram(words: string[], runAgent: AgentRunner): ProgramBuilder {
  return async (context) => {
    const isAboutAgent = words.some((word) => word === 'agent' || word === 'completion');
    const agentSettings = isAboutAgent ? (await import('@hearth/node-agent/config')).settings : [];
    return buildProgram({ ...context, runAgent, agentSettings });
  };
}

/** The whole command tree. Throws commander's errors and `HearthError`. */
function buildProgram(context: CommandContext): Command {
  const { terminal } = context;
  const program: Command = new Command(terminal.program)
    .description('Hearth keeps the bytes of models on the nodes that read them.')
    .version(ownVersion(), '--version', 'show the version')
    .option('--socket <path>', `socket of the agent to ask (default: $HEARTH_SOCKET, else ${defaultSocket})`)
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
    .commandsGroup('Writable volumes:')
    .addCommand(volumeCommand(context))
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
    .addCommand(revocationCommand(context))
    .commandsGroup('Other:')
    .helpCommand('help [command]', 'Show help of a command.')
    .addCommand(completionCommand(context, () => program))
    .addCommand(completeCommand(context), { hidden: true })
    .addCommand(versionCommand(context));
  return withConventions(withOutputOptions(program), terminal);
}
