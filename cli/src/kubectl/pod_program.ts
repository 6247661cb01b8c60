import { type Readable, Writable } from 'node:stream';
import { HearthError } from '@hearth/common';
import type { KubeConfig, V1Status } from '@kubernetes/client-node';

/** A program with arguments, in a container of a pod. */
export interface PodProgram {
  namespace: string;
  pod: string;
  container: string;
  words: string[];
}

export interface PodStreams {
  stdin?: Readable;
  stdout: Writable;
  /** Absent: the program runs on a terminal, and `stdout` receives all output. */
  stderr?: Writable;
}

/**
 * Runs a program through the API server (`pods/exec`) and returns its exit code. Throws `PermissionDenied` when the
 * user lacks the right, `Unavailable` when the connection ends before the program, `Cancelled` when `signal` aborts.
 */
export async function runInPod(
  config: KubeConfig,
  { namespace, pod, container, words }: PodProgram,
  { stdin, stdout, stderr }: PodStreams,
  signal: AbortSignal,
): Promise<number> {
  const { Exec } = await import('@kubernetes/client-node');
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const ended = (status: V1Status) => {
    try {
      resolve(exitCodeOf(status));
    } catch (thrown) {
      reject(thrown);
    }
  };
  const hasTerminal = stderr === undefined;
  const streams = [stdout, stderr ?? null, stdin ?? null] as const;
  const socket = await new Exec(config)
    .exec(namespace, pod, container, words, ...streams, hasTerminal, ended)
    .catch((thrown: unknown) => {
      throw refusal(thrown, `${namespace}/${pod}`);
    });
  const end = () => {
    socket.close();
    reject(new HearthError('Cancelled', 'interrupted'));
  };
  socket.addEventListener('close', () =>
    reject(new HearthError('Unavailable', `the connection to pod ${namespace}/${pod} ended before its program`)),
  );
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', end);
    socket.close();
  }
}

/** Runs a program without input and returns its output. */
export async function outputInPod(config: KubeConfig, program: PodProgram, signal: AbortSignal) {
  const stdout = new Collected();
  const stderr = new Collected();
  const code = await runInPod(config, program, { stdout, stderr }, signal);
  return { code, stdout: stdout.text, stderr: stderr.text };
}

class Collected extends Writable {
  readonly #chunks: Buffer[] = [];

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#chunks.push(chunk);
    done();
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}

function exitCodeOf({ status, message, details }: V1Status): number {
  if (status === 'Success') return 0;
  const code = details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message;
  if (code !== undefined) return Number(code);
  throw new HearthError('Unavailable', `the pod did not run the program: ${message ?? 'no reason was given'}`);
}

/** client-node rejects with a WebSocket event whose message contains the HTTP status. */
function refusal(thrown: unknown, pod: string): HearthError {
  const message = (thrown as { message?: string }).message ?? String(thrown);
  const status = /Unexpected server response: (\d+)/.exec(message)?.[1];
  if (status === '401' || status === '403') {
    return new HearthError(
      'PermissionDenied',
      `you may not run programs in pod ${pod} (create pods/exec); ask an administrator, or use explain and status`,
    );
  }
  if (status === '404') return new HearthError('NotFound', `pod ${pod} no longer exists; run the command again`);
  return new HearthError('Unavailable', `the API server cannot run programs in pod ${pod}: ${message}`);
}
