import { connect } from 'node:net';
import { type Clock, systemClock } from './clock.ts';

/** Maximum length of a path in bytes: sun_path of unix(7) without the NUL. */
export const longestSocketPath = 107;

/**
 * The errno for which no process answers on a Unix socket within `limitMs`; undefined when one answers. gRPC alone
 * reports only "unavailable".
 */
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
