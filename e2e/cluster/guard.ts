// Removes a cluster when the process that it belongs to has ended, in whatever way: `node guard.ts NAME` waits for the
// end of its standard input, whose other end that process holds.
import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { remove } from './state.ts';

/** Starts the guard of a cluster. Disposing of it, when the cluster has been removed, ends it; else this process's end does. */
export async function guard(name: string): Promise<AsyncDisposable> {
  // Detached: a signal to the process group of a terminal ends the tests, not what cleans up after them.
  const child = spawn(process.execPath, [import.meta.filename, name], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
  // Neither the process nor the pipe keeps this process running.
  child.unref();
  (child.stdin as unknown as Socket).unref();
  return {
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.ref();
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.stdin.end();
      await ended;
    },
  };
}

if (import.meta.main) {
  const [name = ''] = process.argv.slice(2);
  process.stdin.resume();
  process.stdin.once('end', () => remove(name));
}
