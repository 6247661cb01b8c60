import type { Socket } from 'node:net';
import { ChannelCredentials } from '@grpc/grpc-js';
import { type Clock, systemClock } from '../clock.ts';

type Connector = ReturnType<ChannelCredentials['_createSecureConnector']>;

/**
 * Credentials whose handshakes fail after `limitMs` milliseconds. gRPC sets them no end, and neither does TCP once the
 * other side has taken our first message: the channel would never try again.
 */
export class HandshakeLimit extends ChannelCredentials {
  readonly #inner: ChannelCredentials;
  readonly #limitMs: number;
  readonly #clock: Clock;

  constructor(inner: ChannelCredentials, limitMs: number, clock: Clock = systemClock) {
    super();
    this.#clock = clock;
    this.#inner = inner;
    this.#limitMs = limitMs;
  }

  override _isSecure(): boolean {
    return this.#inner._isSecure();
  }

  override _equals(other: ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(...where: Parameters<ChannelCredentials['_createSecureConnector']>): Connector {
    const inner = this.#inner._createSecureConnector(...where);
    const limitMs = this.#limitMs;
    const clock = this.#clock;
    const shaking = new Map<Socket, () => void>();
    return {
      waitForReady: () => inner.waitForReady(),
      getCallCredentials: () => inner.getCallCredentials(),
      async connect(socket) {
        const late = new Error(`the TLS handshake was not answered within ${limitMs} ms`);
        const cancel = clock.schedule(limitMs, () => socket.destroy(late));
        shaking.set(socket, cancel);
        try {
          return await inner.connect(socket);
        } finally {
          cancel();
          shaking.delete(socket);
        }
      },
      // Of a channel that is closed: gRPC forgets its attempt, but not the socket.
      destroy() {
        for (const [socket, cancel] of shaking) {
          // The handshake of a socket that is destroyed by us may not end.
          cancel();
          socket.destroy();
        }
        inner.destroy();
      },
    };
  }
}
