import { spawn } from 'node:child_process';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '../..');
export const node = join(root, 'node_modules/.bin/node');

export interface Outcome {
  code: number;
  output: string;
}

/** Of a step, on a machine that is busy with something else. */
const stepMs = 60 * 60_000;

/**
 * Runs a command in the repository's root; its output goes through to ours unless `quiet`, and is kept. What takes longer
 * than `timeoutMs` (an hour) is ended, which is said.
 */
export function run(
  command: string,
  args: string[],
  options: { quiet?: boolean; env?: NodeJS.ProcessEnv; timeoutMs?: number } = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const { timeoutMs: timeout = stepMs } = options;
    const began = performance.now();
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout,
    });
    const parts: Buffer[] = [];
    const take = (stream: NodeJS.WriteStream) => (chunk: Buffer) => {
      parts.push(chunk);
      if (!options.quiet) stream.write(chunk);
    };
    child.stdout.on('data', take(process.stdout));
    child.stderr.on('data', take(process.stderr));
    child.on('error', (error) => resolve({ code: 127, output: `${command}: ${error.message}` }));
    child.on('close', (code, signal) => {
      const late = performance.now() - began >= timeout ? `, as it took longer than ${timeout / 60_000} minutes` : '';
      const killed = signal ? `\n${[command, ...args].join(' ').slice(0, 200)} was ended by ${signal}${late}\n` : '';
      if (killed !== '') process.stderr.write(killed);
      resolve({ code: code ?? 1, output: Buffer.concat(parts).toString() + killed });
    });
  });
}
