import type { Command, Option } from 'commander';
import { firstLine } from './format/wrap.ts';
import { defaultTimeoutSeconds, wholeNumber } from './output.ts';
import type { Terminal } from './terminal.ts';

const maxTimeoutSeconds = 86_400;

/** Adds the options of every command of both programs. */
export function withOutputOptions(program: Command): Command {
  return program
    .option(
      '--timeout <seconds>',
      `time limit of one answer (default: ${defaultTimeoutSeconds})`,
      wholeNumber(1, maxTimeoutSeconds),
    )
    .option('--json', 'write JSON to standard output: one value, or a stream of values, one a line');
}

/** Makes a command tree throw its errors, fit help to the terminal and show global options with every command. */
export function withConventions(program: Command, terminal: Terminal): Command {
  everyCommand(program, (command) => {
    command
      .exitOverride()
      .configureOutput({
        writeOut: (text) => terminal.stdout.write(text),
        // The caller writes each error once.
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
