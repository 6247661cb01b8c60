import { errorTable, HearthError } from '@hearth/common';
import { type Command, CommanderError } from 'commander';
import { toJson } from './format/json.ts';
import { printable } from './format/paint.ts';
import type { ActionContext } from './output.ts';
import type { Terminal } from './terminal.ts';

/** Builds the command tree; commands report exit codes to `setExit`. */
export type ProgramBuilder = (context: ActionContext) => Command | Promise<Command>;

/** Runs one command line (without interpreter and script) and returns its exit code. Never throws. */
export async function run(words: string[], terminal: Terminal, build: ProgramBuilder): Promise<number> {
  let code: number = errorTable.Ok.exit;
  const program = await build({
    terminal,
    setExit: (given) => {
      code = given;
    },
  });
  try {
    await program.parseAsync(words.length === 0 ? ['--help'] : words, { from: 'user' });
    return code;
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return errorTable.Ok.exit;
    return report(thrown, words, program, terminal);
  }
}

function report(thrown: unknown, words: string[], program: Command, terminal: Terminal): number {
  const error = asHearthError(thrown, words, program, terminal);
  const sentence = printable(error.message.trim());
  if (words.includes('--json')) {
    terminal.stderr.write(`${toJson({ error: { code: error.code, message: sentence } })}\n`);
  } else if (error.code !== 'Cancelled' || !terminal.interrupt.aborted) {
    // The user knows about their own Ctrl-C.
    terminal.stderr.write(`${terminal.program}: ${sentence}\n`);
  }
  return error.exitCode;
}

function asHearthError(thrown: unknown, words: string[], program: Command, terminal: Terminal): HearthError {
  if (thrown instanceof CommanderError) return usageError(thrown, commandOf(program, words));
  if (thrown instanceof HearthError) return thrown;
  // Timers and streams throw their own errors when the signal aborts them.
  if (terminal.interrupt.aborted) return new HearthError('Cancelled', 'interrupted', { cause: thrown });
  return HearthError.from(thrown);
}

/** Converts commander's "error: unknown option '--x'" to a sentence with the next step. */
function usageError(thrown: CommanderError, command: string): HearthError {
  const missing = thrown.code === 'commander.help';
  const message = thrown.message
    .replace(/^error: /, '')
    .replaceAll('\n', ' ')
    .replace(/\.$/, '');
  return new HearthError('InvalidArgument', `${missing ? 'a command is missing' : message}; see \`${command} --help\``);
}

/** Full name of the deepest command that the words name. */
function commandOf(program: Command, words: string[]): string {
  let command = program;
  const names = [program.name()];
  for (const word of words) {
    const next = command.commands.find((child) => child.name() === word || child.aliases().includes(word));
    if (next === undefined) continue;
    command = next;
    names.push(next.name());
  }
  return names.join(' ');
}
