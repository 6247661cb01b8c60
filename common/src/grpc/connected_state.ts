import { type ChannelInterface, connectivityState } from '@grpc/grpc-js';

const longestWatchMs = 250;

const ends: ReadonlySet<connectivityState> = new Set([
  connectivityState.READY,
  connectivityState.TRANSIENT_FAILURE,
  connectivityState.SHUTDOWN,
]);

/**
 * READY, TRANSIENT_FAILURE, SHUTDOWN of a channel that is closed, or what it was after `limitMs` milliseconds. Makes an
 * idle channel connect. Throws the signal's reason, soon after it was aborted. `now`: milliseconds that only grow.
 */
export async function connectedState(
  channel: ChannelInterface,
  limitMs: number,
  signal: AbortSignal,
  now = () => performance.now(),
): Promise<connectivityState> {
  const endsAt = now() + limitMs;
  for (;;) {
    signal.throwIfAborted();
    const state = channel.getConnectivityState(true);
    const left = endsAt - now();
    if (ends.has(state) || left <= 0) return state;
    await new Promise<void>((done) => {
      channel.watchConnectivityState(state, new Date(Date.now() + Math.min(left, longestWatchMs)), () => done());
    });
  }
}
