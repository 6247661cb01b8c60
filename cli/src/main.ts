import { runAgentProcess } from './agent_process.ts';
import { hearthProgram } from './program.ts';
import { run } from './run.ts';
import { systemTerminal } from './terminal.ts';

const terminal = systemTerminal();

// A reader that exits early (`hearth ls x | head`) is not a failure of this program.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  process.stderr.write(`${terminal.program}: the output cannot be written (${error.code}); check where it goes\n`);
  process.exit(14);
});

/** Time before the process exits although parts of an agent still hang, ms. */
const lingerMs = 1_000;

const words = process.argv.slice(2);
process.exitCode = await run(words, terminal, hearthProgram(words, runAgentProcess));
terminal.clock.every(lingerMs, () => process.exit());
