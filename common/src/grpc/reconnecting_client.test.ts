import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { credentials, Server, ServerCredentials } from '@grpc/grpc-js';
import { TestClock, until } from '../testing/index.ts';
import { ReconnectingClient } from './reconnecting_client.ts';
import { BlackHole, SilentListener } from './testing/index.ts';

const connectMs = 2_000;
/** A call without a bound of its own waits for this deadline, longer than any test may take. */
const deadlineMs = 3_600_000;
const signal = new AbortController().signal;

describe('client of an address', () => {
  const ends: (() => unknown)[] = [];
  /** Clock of the clients. */
  let clock: TestClock;

  beforeEach(() => {
    clock = new TestClock();
  });

  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });

  function open(address: string, secure = credentials.createSsl()): ReconnectingClient {
    const options = {
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.min_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 200,
    };
    const callee = 'the agent on n1';
    const client = new ReconnectingClient({ address, credentials: secure, options, connectMs, callee, clock });
    ends.push(() => client.close());
    return client;
  }

  /** Asserts that the call fails for lack of a connection once this time has passed, and not earlier. */
  async function failsAfter(
    waitMs: number,
    client: ReconnectingClient,
    address: string,
    limitMs = deadlineMs,
  ): Promise<void> {
    let ended = false;
    const end = () => {
      ended = true;
    };
    const connected = client.connected(limitMs, signal);
    connected.then(end, end);
    await new Promise((done) => setImmediate(done));
    assert.equal(ended, waitMs === 0, 'it waits when there is something to wait for');
    await clock.advance(waitMs);
    await assert.rejects(connected, {
      code: 'Unavailable',
      message: new RegExp(`^the agent on n1 has not taken a connection to ${address} within [0-9.]+ s; look whether`),
    });
  }

  async function blackHole(): Promise<BlackHole> {
    const hole = await BlackHole.start();
    ends.push(() => hole.stop());
    return hole;
  }

  async function server(): Promise<string> {
    const running = new Server();
    ends.push(() => running.forceShutdown());
    const port = await new Promise<number>((done, failed) => {
      running.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? done(bound) : failed(error),
      );
    });
    return `127.0.0.1:${port}`;
  }

  it('fails in time on packet loss, and at once until the next attempt', async () => {
    const { address } = await blackHole();
    const client = open(address);
    await failsAfter(connectMs, client, address);
    await failsAfter(0, client, address);
    await clock.advance(connectMs);
    // The attempt has used up its time; the next one starts.
    await failsAfter(connectMs, client, address);
    // A shorter deadline wins.
    await failsAfter(100, open(address), address, 100);
  });

  it('fails in time when handshakes hang, and leaves no connection behind', async () => {
    const silent = await SilentListener.start();
    ends.push(() => silent.stop());
    const client = open(silent.address);
    await failsAfter(connectMs, client, silent.address);
    await until('an attempt', () => silent.connections === 1);
    assert.equal(silent.accepted, 1, 'the handshake has longer than a call waits for it');
    await clock.advance(2 * connectMs);
    await until('the next attempt, alone', () => silent.accepted === 2 && silent.connections === 1);
    client.close();
    await until('no connection is left', () => silent.connections === 0);
  });

  it('passes on the reason of a refusing address', async () => {
    const silent = await SilentListener.start();
    await silent.stop();
    const client = await open(silent.address).connected(deadlineMs, signal);
    await new Promise<void>((done) => {
      client.makeUnaryRequest('/a/b', Buffer.from, Buffer.from, Buffer.of(), (error) => {
        assert.match(error?.details ?? '', /ECONNREFUSED/);
        done();
      });
    });
  });

  it('reconnects after a hopeless attempt', async () => {
    const address = await server();
    const [host, port] = address.split(':');
    const sockets: Socket[] = [];
    const relay = createServer((socket) => {
      sockets.push(socket.on('error', () => undefined));
      // The first connection leads nowhere, like a connection to a machine that fails a moment later.
      if (sockets.length === 1) return;
      const other = connect(Number(port), host).on('error', () => socket.destroy());
      sockets.push(other);
      other.pipe(socket).pipe(other);
    }).listen(0, '127.0.0.1');
    ends.push(() => {
      for (const socket of sockets) socket.destroy();
      relay.close();
    });
    await new Promise((done) => relay.once('listening', done));
    const { port: relayed } = relay.address() as { port: number };
    const client = open(`127.0.0.1:${relayed}`, credentials.createInsecure());
    await failsAfter(connectMs, client, `127.0.0.1:${relayed}`);
    await clock.advance(connectMs);
    const connected = await client.connected(deadlineMs, signal);
    assert.equal(connected, await client.connected(deadlineMs, signal), 'the same from then on');
  });

  it('ends with its signal, and with the client', async () => {
    const { address } = await blackHole();
    const caller = new AbortController();
    setTimeout(() => caller.abort(new Error('enough')), 20);
    await assert.rejects(open(address).connected(deadlineMs, caller.signal), /enough/);
    const client = open(address);
    const waiting = client.connected(deadlineMs, signal);
    client.close();
    await assert.rejects(waiting, /the connection to the agent on n1 at [0-9.:]+ was closed meanwhile/);
  });
});
