import { spawn } from 'node:child_process';
import { join, relative } from 'node:path';
import { HearthError } from '@hearth/common';
import { root } from '../scripts/test/command.ts';

const program = join(root, 'cli/bin/hearth');

/** Runs `hearth` as a person would, says its command line first, and gives its exit code. */
export function hearth(socket: string, words: string[], signal: AbortSignal): Promise<number> {
  const inside = relative(root, socket);
  const shown = ['cli/bin/hearth', '--socket', inside.startsWith('..') ? socket : inside, ...words];
  console.log(`\n$ ${shown.map(quote).join(' ')}`);
  return new Promise((resolve, reject) => {
    const child = spawn(program, ['--socket', socket, ...words], { cwd: root, stdio: 'inherit' });
    // Ctrl-C reaches the child by the terminal; a SIGTERM to us does not.
    const end = () => child.kill('SIGTERM');
    signal.addEventListener('abort', end, { once: true });
    child.on('error', reject);
    child.on('close', (code) => {
      signal.removeEventListener('abort', end);
      resolve(code ?? 130);
    });
  });
}

/** The same for a step without which there is no next one. */
export async function mustHearth(socket: string, words: string[], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const code = await hearth(socket, words, signal);
  signal.throwIfAborted();
  if (code !== 0) throw new StepFailed(words.slice(0, 2).join(' '), code);
}

/** A command that has said itself why it failed; its exit code becomes ours. */
export class StepFailed extends HearthError {
  readonly exit: number;

  constructor(step: string, exit: number) {
    super('Internal', `\`hearth ${step}\` ended with exit code ${exit}; its message stands above`);
    this.exit = exit;
  }
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
