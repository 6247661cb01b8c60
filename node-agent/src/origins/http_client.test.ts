import assert from 'node:assert/strict';
import { settle, TestClock, until } from '@hearth/common/testing';
import { type ScriptedServer, startServer } from '@hearth/common/testing/origins';
import { AddressPolicy } from './address_policy.ts';
import { openConnections } from './connections.ts';
import { HttpClient } from './http_client.ts';

const pauseMs = 1_000;
const attemptMs = 60_000;

describe('HttpClient', () => {
  let server: ScriptedServer;
  let client: HttpClient;
  let clock: TestClock;

  beforeEach(async () => {
    server = await startServer();
    clock = new TestClock();
    const policy = new AddressPolicy(true, []);
    client = new HttpClient(openConnections(policy, ''), policy, { attempts: 2, pauseMs, attemptMs, clock });
  });
  afterEach(async () => {
    client.close();
    await server.stop();
  });

  function get(bodyLimit: number, signal = AbortSignal.timeout(300_000)) {
    return client.request({
      method: 'GET',
      url: new URL(`${server.url}/x?k=secret`),
      redirects: 'follow',
      bodyLimit,
      signal,
    });
  }

  it('cuts a body at its limit', async () => {
    server.handler = (_request, response) => response.end('12345');
    assert.deepEqual(await get(5).then(({ body, truncated }) => [body.toString(), truncated]), ['12345', false]);
    assert.deepEqual(await get(4).then(({ body, truncated }) => [body.toString(), truncated]), ['1234', true]);
  });

  it('bounds an attempt by a deadline, before and within the body', async () => {
    const failed = async (requests: number, message: RegExp) => {
      const failing = assert.rejects(get(5), { code: 'Unavailable', message });
      for (const expected of [requests - 1, requests]) {
        await until('the attempt', () => server.requests.length === expected);
        await clock.advance(attemptMs - 1);
        assert.equal(server.requests.length, expected, 'it has its time');
        await clock.advance(1);
        if (expected < requests) await until('its end', () => clock.next === (pauseMs * 3) / 4);
        await clock.advance((pauseMs * 3) / 4);
      }
      await failing;
    };
    server.handler = () => undefined;
    await failed(2, /cannot be reached \(ETIMEDOUT\)/);
    server.handler = (_request, response) => response.writeHead(200, { 'content-length': 5 }).write('12');
    await failed(4, /./);
  });

  it('retries when a body is cut short', async () => {
    server.handler = (_request, response) => {
      const whole = server.requests.length > 1;
      response
        .writeHead(200, { 'content-length': 5 })
        .write(whole ? '12345' : '12', () => (whole ? response.end() : response.destroy()));
    };
    const whole = get(5);
    await until('the end of the first', () => clock.next === (pauseMs * 3) / 4);
    await clock.advance(pauseMs);
    assert.equal((await whole).body.toString(), '12345');
  });

  it('ends when it is cancelled between attempts', async () => {
    server.handler = (_request, response) => response.writeHead(503, { 'retry-after': '30' }).end();
    const caller = new AbortController();
    const cancelled = assert.rejects(get(5, caller.signal), (thrown: { code: string; message: string }) => {
      assert.equal(thrown.code, 'Cancelled');
      assert.doesNotMatch(thrown.message, /secret/);
      return true;
    });
    await until('the pause', () => clock.next === 30_000);
    caller.abort();
    await cancelled;
    assert.equal(server.requests.length, 1);
    await settle();
    assert.equal(clock.next, undefined);
  });
});
