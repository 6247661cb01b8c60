import { type ChannelInterface, connectivityState } from '@grpc/grpc-js';
import { type Clock, epochMs, systemClock } from '../clock.ts';

const maxWatchMs = 250;

const ends: ReadonlySet<connectivityState> = new Set([
  connectivityState.READY,
  connectivityState.TRANSIENT_FAILURE,
  connectivityState.SHUTDOWN,
]);

/**
 * Makes an idle channel connect and waits for READY, TRANSIENT_FAILURE or SHUTDOWN. Returns the current state after
 * `limitMs` milliseconds. Throws the signal's reason soon after the signal aborts.
 */
export async function connectedState(
  channel: ChannelInterface,
  limitMs: number,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<connectivityState> {
  const endsAt = clock.now() + limitMs;
  for (;;) {
    signal.throwIfAborted();
    const state = channel.getConnectivityState(true);
    const left = endsAt - clock.now();
    if (ends.has(state) || left <= 0) return state;
    await new Promise<void>((done) => {
      // gRPC deadlines use the system clock.
      const until = epochMs(systemClock) + Math.min(left, maxWatchMs);
      channel.watchConnectivityState(state, until, () => done());
    });
  }
}
