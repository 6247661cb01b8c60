import { run } from '../run.ts';
import { systemTerminal } from '../terminal.ts';
import { kubectlProgram } from './program.ts';

/** `kubectl hearth`: talks to the API server from any machine. */
async function main(): Promise<void> {
  const terminal = { ...systemTerminal(), program: 'kubectl hearth' };
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 14));
  const code = await run(process.argv.slice(2), terminal, kubectlProgram);
  // Idle connections would keep the process alive, so it exits once the output is written.
  process.stdout.write('', () => process.exit(code));
}

void main();
