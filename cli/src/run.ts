import { errorTable, HearthError } from '@hearth/common';
import { CommanderError } from 'commander';
import { toJson } from './format/json.ts';
import { printable } from './format/paint.ts';
import { buildProgram } from './program.ts';
import type { AgentRunner } from './session.ts';
import type { Terminal } from './terminal.ts';

/** Runs one command line (without interpreter and script) and gives its exit code. Never throws. */
export async function run(words: string[], terminal: Terminal, runAgent: AgentRunner): Promise<number> {
  let code: number = errorTable.Ok.exit;
  const aboutAgent = words.some((word) => word === 'agent' || word === 'completion');
  const program = buildProgram({
    terminal,
    runAgent,
    agentSettings: aboutAgent ? (await import('@hearth/node-agent/config')).settings : [],
    setExit: (given) => {
      code = given;
    },
  });
  try {
    await program.parseAsync(words, { from: 'user' });
    return code;
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return errorTable.Ok.exit;
    return report(thrown, words, terminal);
  }
}

function report(thrown: unknown, words: string[], terminal: Terminal): number {
  const usage = thrown instanceof CommanderError;
  const error = usage ? usageError(thrown, terminal) : HearthError.from(thrown);
  const cancelled = error.code === 'Cancelled' && terminal.interrupt.aborted;
  const sentence = printable(error.message.trim());
  if (words.includes('--json')) {
    terminal.stderr.write(`${toJson({ error: { code: error.code, message: sentence } })}\n`);
  } else if (!cancelled) {
    terminal.stderr.write(`${terminal.program}: ${sentence}\n`);
  }
  return error.exitCode;
}

/** commander's "error: unknown option '--x'" as a sentence with the next step. */
function usageError(thrown: CommanderError, terminal: Terminal): HearthError {
  const message = thrown.message
    .replace(/^error: /, '')
    .replace(/\n/g, ' ')
    .replace(/\.$/, '');
  if (thrown.code === 'commander.help' || message === '(outputHelp)') {
    return new HearthError('InvalidArgument', `a command is missing; see \`${terminal.program} --help\``);
  }
  return new HearthError('InvalidArgument', `${message}; see \`${terminal.program} --help\``);
}
