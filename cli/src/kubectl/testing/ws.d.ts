/** The part of ws that tests use; ws has no types. */
declare module 'ws' {
  export class WebSocketServer {
    constructor(options: { noServer: true; handleProtocols: (offered: Set<string>) => string });
    handleUpgrade(
      request: import('node:http').IncomingMessage,
      socket: import('node:stream').Duplex,
      head: Buffer,
      done: (socket: { send(data: Buffer): void; close(): void }) => void,
    ): void;
  }
}
