import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { silentLogger } from '@hearth/common';
import { type ChangeListener, type ConfigMap, type KubernetesObject, kinds } from '@hearth/common/kubernetes';
import { MemoryApi } from '@hearth/common/kubernetes/testing';
import { until } from '@hearth/common/testing';
import { type Notice, NoticeReconciler, noticeType, runNoticeController } from './testing/notice_controller.ts';

/** Objects of one kind of an API in memory, as a reflector shows them. */
class Shown<T extends KubernetesObject> {
  readonly #api: MemoryApi;
  readonly #plural: string;
  readonly #listeners = new Set<ChangeListener<T>>();

  constructor(api: MemoryApi, plural: string) {
    this.#api = api;
    this.#plural = plural;
  }

  get = (key: string) => this.#api.objects.get(`${this.#plural}/${key}`) as T | undefined;
  keys = () => ['ns/a'].filter((key) => this.get(key) !== undefined);
  all = () => this.keys().map((key) => this.get(key) as T);
  synced = async () => undefined;
  onChange = (listener: ChangeListener<T>) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** As the watch does, of the object `ns/a`. */
  notify(before?: T): void {
    for (const listener of this.#listeners) listener('ns/a', before, this.get('ns/a'));
  }
}

describe('the example of a controller', () => {
  const api = new MemoryApi();
  const notices = new Shown<Notice>(api, 'notices');
  const configMaps = new Shown<ConfigMap>(api, 'configmaps');
  const options = { api, notices, configMaps, events: { eventFor: () => undefined }, logger: silentLogger };

  it('is what the README shows', async () => {
    const [readme, example] = await Promise.all(
      ['../../README.md', './testing/notice_controller.ts'].map((path) =>
        readFile(new URL(path, import.meta.url), 'utf8'),
      ),
    );
    assert.ok(readme?.includes(`\n\`\`\`ts\n${example}\`\`\`\n`), 'copy the file into the block of operator/README.md');
  });

  it('plans nothing for what is as it should be', () => {
    const reconciler = new NoticeReconciler(options);
    const notice = { metadata: { namespace: 'ns', name: 'a', uid: 'u' }, spec: { text: 'hello' } };
    assert.deepEqual(reconciler.plan(notice, { present: { data: { text: 'hello' } } }), []);
    const [action] = reconciler.plan(notice, { present: { data: { text: 'other' } } });
    assert.deepEqual(action?.object.data, { text: 'hello' });
  });

  it('makes what is missing, and puts right what others change', async () => {
    const ending = new AbortController();
    const ended = runNoticeController(options, ending.signal);
    const text = () => configMaps.get('ns/a')?.data?.text;
    await api.create(noticeType, { metadata: { namespace: 'ns', name: 'a' }, spec: { text: 'hello' } });
    notices.notify();
    await until('it is made, and its status says so', () => {
      return text() === 'hello' && notices.get('ns/a')?.status?.conditions?.[0]?.reason === 'Written';
    });
    const before = configMaps.get('ns/a');
    await api.patch(kinds.ConfigMap, 'a', 'ns', { data: { text: 'drift' } }, { kind: 'merge' });
    configMaps.notify(before);
    await until('it is put right', () => text() === 'hello');
    ending.abort();
    await ended;
  });
});
