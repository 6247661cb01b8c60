import { spawn } from 'node:child_process';

/**
 * Holds an exclusive lock on a file (made if missing) until disposed of, waiting for others first. The kernel releases
 * it when this process ends in any way: flock(1) holds it and ends with its standard input.
 */
export async function lock(path: string): Promise<AsyncDisposable> {
  const child = spawn('flock', [path, 'sh', '-c', 'echo held; exec cat >/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    child.stdout.once('data', () => resolve());
    child.once('error', reject);
    child.once('close', (code) => reject(new Error(`flock ${path} ended with ${code}`)));
  });
  return {
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await ended;
    },
  };
}
