import assert from 'node:assert/strict';
import { createServer, type Server, type Socket } from 'node:net';
import { HearthError } from '../error.ts';
import { silentLogger } from '../logger.ts';
import { elapse, until } from '../testing/index.ts';
import { TestClock } from '../testing/test_clock.ts';
import { type ConfigMap, kinds } from './kinds.ts';
import { Reflector, type ReflectorOptions } from './reflector.ts';
import {
  type Answer,
  configMap,
  json,
  line,
  listOf,
  refusal,
  ScriptedServer,
  streamed,
} from './testing/scripted_server.ts';

const open = streamed([], 'open');
const reset: Answer = (_request, response) => void response.socket?.destroy();

describe('Reflector', () => {
  let server: ScriptedServer;
  let stop: AbortController;
  let told: string[];
  /** Clock of the reflector's delays. */
  let clock: TestClock;

  beforeEach(() => {
    stop = new AbortController();
    told = [];
    clock = new TestClock();
  });
  afterEach(async () => {
    stop.abort();
    await server.stop();
  });

  const start = async <P = ConfigMap>(
    answers: Answer[],
    options: Partial<ReflectorOptions<ConfigMap, P>> = {},
  ): Promise<Reflector<ConfigMap, P>> => {
    server = await ScriptedServer.start(...answers);
    const common = { api: server.api({ deadlineMs: 300_000 }), type: kinds.ConfigMap, namespace: 'default' };
    const reflector = new Reflector<ConfigMap, P>({ ...common, logger: silentLogger, clock, ...options });
    reflector.onChange((key, before, after) => {
      const version = (value: P | undefined) => (value as ConfigMap | undefined)?.metadata?.resourceVersion ?? '-';
      told.push(`${key} ${version(before)}>${version(after)}`);
    });
    reflector.start(stop.signal);
    return reflector;
  };
  const queries = (): string[] =>
    server.requests.map(({ url }) => {
      const { watch, resourceVersion, limit, continue: token } = Object.fromEntries(url.searchParams);
      return watch ? `watch ${resourceVersion}` : `list${limit ? ` ${limit}` : ''}${token ? ` ${token}` : ''}`;
    });
  /** Asserts that the next delay lies between these times, and lets it pass. */
  const passWait = async (shortest: number, longest: number): Promise<void> => {
    await until('a wait', () => clock.next !== undefined);
    const wait = clock.next ?? 0;
    assert.ok(wait >= shortest && wait <= longest, `waits ${wait} ms`);
    await clock.advance(wait);
  };

  it('lists page by page, watches from there and reports every change in order', async () => {
    const reflector = await start(
      [
        json(listOf([configMap('a', 1), configMap('b', 2)], 9, 'second')),
        json(listOf([configMap('c', 3)], 9)),
        streamed(
          [
            line('MODIFIED', configMap('b', 10)),
            line('ADDED', configMap('d', 11)),
            line('DELETED', configMap('a', 12)),
          ],
          'open',
        ),
      ],
      { pageSize: 2, labelSelector: 'x=y' },
    );
    await reflector.synced();
    assert.deepEqual(reflector.keys(), ['default/a', 'default/b', 'default/c']);
    await until('changes', () => told.length === 6);
    assert.deepEqual(told, [
      'default/a ->1',
      'default/b ->2',
      'default/c ->3',
      'default/b 2>10',
      'default/d ->11',
      'default/a 1>-',
    ]);
    assert.deepEqual(queries(), ['list 2', 'list 2 second', 'watch 9']);
    const { searchParams } = server.requests[2]?.url ?? new URL('none:');
    assert.equal(searchParams.get('allowWatchBookmarks'), 'true');
    assert.equal(searchParams.get('timeoutSeconds'), '450', 'between 300 and 600, here the middle');
    assert.equal(searchParams.get('labelSelector'), 'x=y');
    assert.equal(reflector.size, 3);
    assert.equal(reflector.get('default/d')?.kind, 'ConfigMap');
  });

  it('keeps only the projection, and never managedFields', async () => {
    const managed = { metadata: { name: 'a', namespace: 'default', resourceVersion: '1', managedFields: [{}] } };
    const whole = await start([json(listOf([managed], 1)), open]);
    await whole.synced();
    assert.equal(whole.get('default/a')?.metadata?.managedFields, undefined);
    stop.abort();
    await server.stop();

    stop = new AbortController();
    const reflector = await start<string>(
      [json(listOf([configMap('a', 1, { data: { k: 'v' } }), configMap('bad', 2)], 2)), open],
      {
        project: ({ data }) => {
          if (data === undefined) throw new Error('no data');
          return Object.keys(data).join();
        },
      },
    );
    await reflector.synced();
    assert.deepEqual(reflector.all(), ['k'], 'what cannot be projected counts as absent');
  });

  it('treats objects without a projection as absent, and reports no change outside the projection', async () => {
    const kept = (name: string, version: number, value?: string) =>
      configMap(name, version, value === undefined ? {} : { data: { value } });
    const changes: unknown[] = [];
    const reflector = await start<{ value: string }>(
      [
        json(listOf([kept('a', 1, 'x'), kept('b', 2), kept('c', 3, 'x')], 3)),
        streamed(
          [
            line('MODIFIED', kept('a', 4, 'x')),
            line('MODIFIED', kept('b', 5)),
            line('MODIFIED', kept('c', 6)),
            line('MODIFIED', kept('b', 7, 'y')),
            line('DELETED', kept('c', 8)),
          ],
          'open',
        ),
      ],
      { project: ({ data }) => (data?.value === undefined ? undefined : { value: data.value }) },
    );
    reflector.onChange((...change) => changes.push(change));
    await until('b', () => reflector.get('default/b') !== undefined);
    assert.deepEqual(changes, [
      ['default/a', undefined, { value: 'x' }],
      ['default/c', undefined, { value: 'x' }],
      ['default/c', { value: 'x' }, undefined],
      ['default/b', undefined, { value: 'y' }],
    ]);
    assert.deepEqual(reflector.keys(), ['default/a', 'default/b']);
  });

  it('continues from bookmarks after the server ends a watch', async () => {
    const bookmark = line('BOOKMARK', { metadata: { resourceVersion: '50' } });
    await start([json(listOf([], 9)), streamed([bookmark], 'close'), open]);
    await until('the next watch', () => server.requests.length === 3);
    assert.deepEqual(queries(), ['list 500', 'watch 9', 'watch 50']);
    assert.deepEqual(told, []);
  });

  it('lists again after 410, in the stream or before it, and reports missed deletions', async () => {
    const expired = refusal(410, 'Expired', 'too old resource version: 9 (20)');
    const replaced = {
      ...configMap('c', 31),
      metadata: { name: 'c', namespace: 'default', uid: 'new', resourceVersion: '31' },
    };
    const reflector = await start([
      json(listOf([configMap('a', 1), configMap('b', 2), configMap('c', 3)], 9)),
      streamed([line('ERROR', expired)], 'close'),
      json(listOf([configMap('b', 2), replaced], 40)),
      json(expired, 410),
      json(listOf([configMap('b', 44)], 50)),
      open,
    ]);
    await passWait(400, 800);
    await until('the second list', () => told.length === 6);
    assert.deepEqual(
      told.slice(3),
      ['default/c 3>-', 'default/c ->31', 'default/a 1>-'],
      'the same name, another object',
    );
    await passWait(800, 1_600);
    await until('the third watch', () => server.requests.length === 6);
    assert.deepEqual(told.slice(6), ['default/b 2>44', 'default/c 31>-']);
    assert.deepEqual(queries(), ['list 500', 'watch 9', 'list 500', 'watch 40', 'list 500', 'watch 50']);
    assert.deepEqual(reflector.keys(), ['default/b']);
  });

  it('requests everything in one page when a list took longer than its token lasts', async () => {
    await start([
      json(listOf([configMap('a', 1)], 9, 'second')),
      json(refusal(410, 'Expired', 'the provided continue parameter is too old'), 410),
      json(listOf([configMap('b', 2)], 12)),
      streamed([line('ERROR', refusal(410, 'Expired'))], 'close'),
      json(listOf([configMap('b', 2)], 13)),
      open,
    ]);
    await passWait(400, 800);
    await passWait(800, 1_600);
    await until('the last watch', () => server.requests.length === 6);
    assert.deepEqual(queries(), ['list 500', 'list 500 second', 'list', 'watch 12', 'list 500', 'watch 13']);
    assert.deepEqual(told, ['default/a ->1', 'default/b ->2', 'default/a 1>-']);
  });

  it('loses nothing when the connection is cut in the middle of a line', async () => {
    const whole = line('ADDED', configMap('a', 10));
    await start([
      json(listOf([], 9)),
      streamed([whole, line('ADDED', configMap('b', 11)).slice(0, 40)], 'cut'),
      streamed([line('ADDED', configMap('b', 11)).slice(0, 40)], 'close'),
      streamed([line('ADDED', configMap('b', 11))], 'open'),
    ]);
    await passWait(400, 800);
    await passWait(800, 1_600);
    await until('b', () => told.length === 2);
    assert.deepEqual(told, ['default/a ->10', 'default/b ->11']);
    assert.deepEqual(queries(), ['list 500', 'watch 9', 'watch 10', 'watch 10']);
  });

  it('joins lines however the network splits them', async () => {
    const text = `${line('ADDED', configMap('a', 10, { data: { k: 'ünï🔥' } }))}\n${line('ADDED', configMap('b', 11))}`;
    const bytes = Buffer.from(text);
    const reflector = await start([
      json(listOf([], 9)),
      async (_request, response) => {
        response.writeHead(200);
        for (let from = 0; from < bytes.length; from += 7) {
          response.write(bytes.subarray(from, from + 7));
          await elapse(0, 'the next bytes come in a packet of their own');
        }
      },
    ]);
    await until('both', () => told.length === 2);
    assert.equal(reflector.get('default/a')?.data?.k, 'ünï🔥');
  });

  it('detects a dead connection although bytes still trickle', async () => {
    await start(
      [
        json(listOf([], 9)),
        async (_request, response) => {
          response.writeHead(200);
          for (const byte of '{"type":"ADDED","object":{') {
            if (response.destroyed) return;
            response.write(byte);
            await elapse(10, 'a pace');
          }
        },
        open,
      ],
      { idleMs: 100 },
    );
    await passWait(400, 800);
    await until('the next watch', () => server.requests.length === 3);
    assert.deepEqual(queries(), ['list 500', 'watch 9', 'watch 9']);
  });

  it('survives errors of every kind with growing delays', async () => {
    const events = [
      'not json\n',
      line('ERROR', refusal(500, 'InternalError', 'etcd is gone')),
      line('UNHEARD', configMap('a', 1)),
      '{"type":"ADDED"}\n',
      '[]\n',
    ];
    await start([
      json(refusal(503, 'ServiceUnavailable'), 503),
      json(refusal(403, 'Forbidden'), 403),
      // Twice: a request on a kept connection is retried once immediately.
      reset,
      reset,
      json(listOf([configMap('a', 1)], 9)),
      ...events.map((text) => streamed([text], 'close')),
      json(refusal(401, 'Unauthorized'), 401),
      streamed([line('MODIFIED', configMap('a', 10))], 'open'),
    ]);
    for (let failure = 0; failure < 9; ++failure) {
      const ceiling = Math.min(30_000, 800 * 2 ** failure);
      await passWait(ceiling / 2, ceiling);
    }
    await until('the change', () => told.length === 2);
    assert.deepEqual(told, ['default/a ->1', 'default/a 1>10']);
  });

  it('waits at least as long as an overloaded server asks', async () => {
    await start([json(listOf([], 9)), json(refusal(429, 'TooManyRequests'), 429, { 'retry-after': '17' }), open]);
    await passWait(17_000, 17_000);
    await until('the watch', () => server.requests.length === 3);
  });

  it('does not retry in a loop when the server ends every watch at once', async () => {
    await start([json(listOf([], 9)), streamed([], 'close')]);
    await passWait(400, 800);
    await passWait(800, 1_600);
    await passWait(1_600, 3_200);
    assert.ok(server.requests.length <= 5);
  });

  it('lists again when the store returned to an older version, as after a restored backup', async () => {
    const older = line('MODIFIED', configMap('a', 3));
    await start([
      json(listOf([configMap('a', 100)], 100)),
      streamed([older], 'open'),
      json(listOf([configMap('a', 3)], 4)),
      open,
    ]);
    await passWait(400, 800);
    await until('the list', () => told.length === 2);
    assert.deepEqual(told, ['default/a ->100', 'default/a 100>3']);
  });

  it('continues when a listener fails', async () => {
    const reflector = await start([json(listOf([configMap('a', 1), configMap('b', 2)], 9)), open]);
    const seen: string[] = [];
    reflector.onChange(() => {
      throw new Error('a bug');
    });
    const forget = reflector.onChange((key) => seen.push(key));
    await reflector.synced();
    assert.deepEqual(seen, ['default/a', 'default/b']);
    forget();
  });

  it('ends when aborted, and rejects waiting callers', async () => {
    const reflector = await start([() => undefined]);
    const waiting = reflector.synced();
    await until('a request', () => server.requests.length === 1);
    stop.abort();
    await assert.rejects(waiting, (thrown: unknown) => thrown instanceof HearthError && thrown.code === 'Cancelled');
    assert.equal(reflector.hasSynced, false);
    assert.throws(() => reflector.start(stop.signal), /is already running/);
    assert.equal(clock.next, undefined, 'no timer is left');
  });

  it('times out on a server that accepts the connection and stays silent', async () => {
    const sockets: Socket[] = [];
    const silent: Server = createServer((socket) => sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    try {
      await start([json(listOf([], 9))]);
      stop.abort();
      stop = new AbortController();
      const { port } = silent.address() as { port: number };
      const connection = { server: new URL(`http://127.0.0.1:${port}`), headers: {}, tls: {} };
      const { KubernetesApi } = await import('./kubernetes_api.ts');
      const api = new KubernetesApi({ connection: async () => connection, refused() {} }, { deadlineMs: 50 });
      const reflector = new Reflector({ api, type: kinds.ConfigMap, logger: silentLogger, clock });
      reflector.start(stop.signal);
      await passWait(400, 800);
      await passWait(800, 1_600);
      await until('a connection of each attempt', () => sockets.length >= 2);
    } finally {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => silent.close(resolve));
    }
  });
});
