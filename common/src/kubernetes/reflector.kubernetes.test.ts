import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { createLogger } from '../index.ts';
import { elapse, until } from '../testing/index.ts';
import { apiOf, startApiServer, type TestApiServer } from '../testing/kubernetes/index.ts';
import { type ConfigMap, type KubernetesApi, kinds, Reflector, type ReflectorOptions } from './index.ts';
import { CutProxy } from './testing/cut_proxy.ts';

type Seen = { name: string; uid: string; value: string };

/** A reflector behind a proxy, and a second copy built only from its change reports. */
class Follower {
  readonly reflector: Reflector<ConfigMap, Seen>;
  readonly told = new Map<string, Seen>();
  readonly log: string[] = [];
  readonly #stop = new AbortController();

  constructor(api: KubernetesApi, label: string, options: Partial<ReflectorOptions<ConfigMap, Seen>> = {}) {
    const stream = new Writable({ write: (chunk, _encoding, done) => done(void this.log.push(String(chunk))) });
    this.reflector = new Reflector<ConfigMap, Seen>({
      api,
      type: kinds.ConfigMap,
      namespace: 'default',
      labelSelector: `test=${label}`,
      project: ({ metadata, data }) => ({
        name: metadata?.name ?? '',
        uid: metadata?.uid ?? '',
        value: data?.value ?? '',
      }),
      logger: createLogger({ level: 'info', format: 'json', stream }),
      ...options,
    });
    this.reflector.onChange((key, before, after) => {
      assert.deepEqual(before, this.told.get(key), `${key} was told as it was`);
      if (after === undefined) this.told.delete(key);
      else this.told.set(key, after);
    });
    this.reflector.start(this.#stop.signal);
  }

  stop(): void {
    this.#stop.abort();
  }
}

describe('Reflector against a real API server', () => {
  let server: TestApiServer;
  let direct: KubernetesApi;
  let proxy: CutProxy;
  let through: KubernetesApi;
  let follower: Follower | undefined;
  before(async function () {
    server = await startApiServer(this);
    direct = apiOf(server.kubeconfig);
    proxy = await CutProxy.start(server.url);
    through = apiOf(proxy.kubeconfig(server.kubeconfig, 'proxy'), { deadlineMs: 3_000 });
  });
  afterEach(() => follower?.stop());
  after(async () => {
    through?.close();
    direct?.close();
    await proxy?.close();
    await server?.stop();
  });

  const put = (label: string, name: string, value: string): Promise<ConfigMap> =>
    direct.apply(kinds.ConfigMap, {
      metadata: { name: `${label}-${name}`, namespace: 'default', labels: { test: label } },
      data: { value },
    });
  const remove = (label: string, name: string): Promise<boolean> =>
    direct.delete(kinds.ConfigMap, `${label}-${name}`, 'default');
  /** Waits until the reflector's copy and the reported copy equal the server's objects. */
  const agrees = async (label: string, { reflector, told }: Follower): Promise<void> => {
    const shown = (seen: Iterable<Seen>) => [...seen].map(({ name, uid, value }) => `${name} ${uid} ${value}`).sort();
    await until(`the copy of ${label}`, async () => {
      const { items } = await direct.list(kinds.ConfigMap, { namespace: 'default', labelSelector: `test=${label}` });
      const truth = shown(
        items.map(({ metadata, data }) => ({
          name: metadata?.name ?? '',
          uid: metadata?.uid ?? '',
          value: data?.value ?? '',
        })),
      );
      return JSON.stringify(truth) === JSON.stringify(shown(reflector.all()));
    });
    assert.deepEqual(shown(told.values()), shown(reflector.all()));
  };

  it('follows changes', async () => {
    await put('plain', 'a', '1');
    follower = new Follower(through, 'plain');
    await follower.reflector.synced();
    assert.deepEqual(follower.reflector.keys(), ['default/plain-a']);
    await put('plain', 'b', '1');
    await put('plain', 'a', '2');
    await remove('plain', 'b');
    await agrees('plain', follower);
    assert.equal(follower.reflector.get('default/plain-a')?.value, '2');
  });

  it('lists a thousand objects in pages', async () => {
    const names = Array.from({ length: 1_000 }, (_, index) => String(index));
    for (let from = 0; from < names.length; from += 50) {
      await Promise.all(names.slice(from, from + 50).map((name) => put('many', name, 'x')));
    }
    follower = new Follower(through, 'many', { pageSize: 150 });
    await follower.reflector.synced();
    assert.equal(follower.reflector.size, 1_000);
    assert.equal(follower.told.size, 1_000);
  });

  it('loses nothing over connections that are cut repeatedly', async () => {
    follower = new Follower(through, 'cut');
    await follower.reflector.synced();
    for (let round = 0; round < 30; ++round) {
      await put('cut', String(round % 7), String(round));
      if (round % 5 === 3) await remove('cut', String((round * 3) % 7));
      if (round % 4 === 0) proxy.cut();
      await elapse(30, 'some of it arrives before the next cut');
    }
    await agrees('cut', follower);
    assert.match(follower.log.join(''), /a watch failed; retrying/);
  });

  it('catches up after a restart of the API server', async () => {
    await put('restart', 'a', '1');
    follower = new Follower(through, 'restart');
    await follower.reflector.synced();
    await server.restart();
    await put('restart', 'b', '1');
    await remove('restart', 'a');
    await agrees('restart', follower);
    assert.deepEqual(follower.reflector.keys(), ['default/restart-b']);
  });

  it('lists again after 410, and reports missed deletions', async () => {
    await put('gone', 'deleted', '1');
    await put('gone', 'replaced', '1');
    await put('gone', 'kept', '1');
    follower = new Follower(through, 'gone');
    await follower.reflector.synced();
    await proxy.close();
    await remove('gone', 'deleted');
    await remove('gone', 'replaced');
    await put('gone', 'replaced', '1');
    await put('gone', 'added', '1');
    // The watch's first revision is gone from etcd and from the API server's cache.
    await server.compact();
    await server.restart();
    await proxy.open();
    await agrees('gone', follower);
    assert.match(follower.log.join(''), /listing again: the resource version is too old/);
    await put('gone', 'kept', '2');
    await agrees('gone', follower);
  });

  it('detects a connection that died silently', async () => {
    follower = new Follower(through, 'frozen', { idleMs: 2_000 });
    await follower.reflector.synced();
    // An arriving change proves that the watch is established.
    await put('frozen', 'a', '1');
    await agrees('frozen', follower);
    proxy.freeze();
    try {
      await put('frozen', 'a', '2');
      await until('the guard', () => follower?.log.some((line) => line.includes('Received nothing')));
    } finally {
      proxy.thaw();
    }
    await agrees('frozen', follower);
  });

  it('waits for a kind that does not exist yet', async () => {
    const widgets = { group: 'reflector.example', version: 'v1', plural: 'widgets', kind: 'Widget', namespaced: true };
    const stop = new AbortController();
    const reflector = new Reflector({
      api: through,
      type: widgets,
      logger: createLogger({ level: 'error', format: 'json' }),
    });
    reflector.start(stop.signal);
    try {
      await elapse(500, 'it would say that it knows all');
      assert.equal(reflector.hasSynced, false);
      await direct.create(kinds.CustomResourceDefinition, {
        metadata: { name: 'widgets.reflector.example' },
        spec: {
          group: 'reflector.example',
          names: { kind: 'Widget', plural: 'widgets' },
          scope: 'Namespaced',
          versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
        },
      });
      await reflector.synced();
    } finally {
      stop.abort();
    }
  });
});
