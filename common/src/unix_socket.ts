import { connect } from 'node:net';
import { type Clock, systemClock } from './clock.ts';

/** Bytes of a path: sun_path of unix(7) without its NUL. */
export const longestSocketPath = 107;

/** Why no process answers at a Unix socket within `limitMs`, as errno; undefined when one does. gRPC says only "unavailable". */
export async function knock(path: string, limitMs: number, clock: Clock = systemClock): Promise<string | undefined> {
  return await new Promise((resolve) => {
    const socket = connect({ path });
    const end = (reason: string | undefined) => {
      cancel();
      socket.destroy();
      resolve(reason);
    };
    const cancel = clock.schedule(limitMs, () => end('ETIMEDOUT'));
    socket.once('connect', () => end(undefined));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}
