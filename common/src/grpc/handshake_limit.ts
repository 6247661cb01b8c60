import type { Socket } from 'node:net';
import { ChannelCredentials } from '@grpc/grpc-js';
import { type Clock, systemClock } from '../clock.ts';

type Connector = ReturnType<ChannelCredentials['_createSecureConnector']>;

/**
 * Credentials whose handshakes fail after `limitMs` milliseconds. Neither gRPC nor TCP bounds a handshake once the peer
 * has acknowledged the first message, so the channel would never retry.
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
      // gRPC abandons the attempt of a closed channel but leaves the socket open.
      destroy() {
        for (const [socket, cancel] of shaking) {
          // A handshake on a socket that was destroyed locally may never end.
          cancel();
          socket.destroy();
        }
        inner.destroy();
      },
    };
  }
}
