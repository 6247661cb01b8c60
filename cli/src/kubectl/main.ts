import { run } from '../run.ts';
import { systemTerminal } from '../terminal.ts';
import { kubectlProgram } from './program.ts';

/** `kubectl hearth`: asks the API server, from anywhere. */
async function main(): Promise<void> {
  const terminal = { ...systemTerminal(), program: 'kubectl hearth' };
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 14));
  const code = await run(process.argv.slice(2), terminal, kubectlProgram);
  // Idle connections would keep the process; the output has to leave first.
  process.stdout.write('', () => process.exit(code));
}

void main();
