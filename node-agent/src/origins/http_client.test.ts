import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { type ScriptedServer, startServer } from '@hearth/common/testing/origins';
import { AddressPolicy } from './address_policy.ts';
import { openConnections } from './connections.ts';
import { HttpClient, type HttpClientOptions } from './http_client.ts';

describe('HttpClient', () => {
  let server: ScriptedServer;
  let client: HttpClient;

  function makeClient(options: HttpClientOptions): HttpClient {
    const policy = new AddressPolicy(true, []);
    return new HttpClient(openConnections(policy, ''), policy, options);
  }

  beforeEach(async () => {
    server = await startServer();
    client = makeClient({ attempts: 2, pauseMs: 1, attemptMs: 300_000 });
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

  it('reads a body up to its limit and breaks off what is longer', async () => {
    server.handler = (_request, response) => response.end('12345');
    assert.deepEqual(await get(5).then(({ body, truncated }) => [body.toString(), truncated]), ['12345', false]);
    assert.deepEqual(await get(4).then(({ body, truncated }) => [body.toString(), truncated]), ['', true]);
  });

  it('gives an attempt a deadline, before and within the body', async () => {
    client.close();
    client = makeClient({ attempts: 2, pauseMs: 1, attemptMs: 200 });
    server.handler = () => undefined;
    await assert.rejects(get(5), { code: 'Unavailable', message: /cannot be reached \(ETIMEDOUT\)/ });
    assert.equal(server.requests.length, 2);
    server.handler = (_request, response) => response.writeHead(200, { 'content-length': 5 }).write('12');
    await assert.rejects(get(5), { code: 'Unavailable' });
    assert.equal(server.requests.length, 4);
  });

  it('tries again when a body is cut short', async () => {
    server.handler = (_request, response) => {
      const whole = server.requests.length > 1;
      response
        .writeHead(200, { 'content-length': 5 })
        .write(whole ? '12345' : '12', () => (whole ? response.end() : response.destroy()));
    };
    assert.equal((await get(5)).body.toString(), '12345');
  });

  it('ends when it is cancelled between attempts', async () => {
    server.handler = (_request, response) => response.writeHead(503, { 'retry-after': '30' }).end();
    const pauses: number[] = [];
    // One that has no end of its own.
    const sleep: HttpClientOptions['sleep'] = (ms, _value, { signal }) => {
      pauses.push(ms);
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    client.close();
    client = makeClient({ attempts: 2, pauseMs: 1, attemptMs: 300_000, sleep });
    const caller = new AbortController();
    const cancelled = assert.rejects(get(5, caller.signal), (thrown: { code: string; message: string }) => {
      assert.equal(thrown.code, 'Cancelled');
      assert.doesNotMatch(thrown.message, /secret/);
      return true;
    });
    await until(() => pauses.length > 0);
    caller.abort();
    await cancelled;
    assert.deepEqual([pauses, server.requests.length], [[30_000], 1]);
  });
});
