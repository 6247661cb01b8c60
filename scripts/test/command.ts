import { spawn } from 'node:child_process';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '../..');
export const node = join(root, 'node_modules/.bin/node');

export interface Outcome {
  code: number;
  output: string;
}

/** Runs a command in the repository's root; its output goes through to ours unless `quiet`, and is kept. */
export function run(
  command: string,
  args: string[],
  options: { quiet?: boolean; env?: NodeJS.ProcessEnv; timeoutMs?: number } = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.timeoutMs ?? 30 * 60_000,
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
      const killed = signal ? `\n${command} was ended by ${signal}` : '';
      resolve({ code: code ?? 1, output: Buffer.concat(parts).toString() + killed });
    });
  });
}
