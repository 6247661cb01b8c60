import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import type { KubernetesObject, ResourceType } from '@hearth/common/kubernetes';
import { cleanup } from './cleanup.ts';

/** Objects by kind; those of kinds in `stuck` stay when they are deleted. */
class FakeCluster {
  readonly objects = new Map<string, KubernetesObject[]>();
  readonly stuck = new Set<string>();
  replicas: number | undefined = 2;
  readonly scaled: number[] = [];
  /** Called when it is scaled. */
  onScale = () => {};

  readonly api = {
    get: async (type: ResourceType) => {
      assert.equal(type.kind, 'Deployment');
      return this.replicas === undefined ? undefined : { spec: { replicas: this.replicas } };
    },
    list: async (type: ResourceType) => ({ items: [...(this.objects.get(type.kind) ?? [])], resourceVersion: '1' }),
    delete: async (type: ResourceType, name: string) => {
      const left = (this.objects.get(type.kind) ?? []).filter(({ metadata }) => metadata?.name !== name);
      if (!this.stuck.has(type.kind)) this.objects.set(type.kind, left);
      return true;
    },
    patch: async (
      type: ResourceType,
      name: string,
      _namespace: string | undefined,
      patch: { spec?: { replicas: number }; metadata?: object },
    ) => {
      if (type.kind === 'Deployment') {
        this.replicas = patch.spec?.replicas ?? 0;
        this.scaled.push(this.replicas);
        this.onScale();
        return;
      }
      const object = this.objects.get(type.kind)?.find(({ metadata }) => metadata?.name === name);
      Object.assign(object?.metadata ?? {}, patch.metadata);
    },
  };

  add(kind: string, name: string, finalizers: string[] = []): KubernetesObject {
    const object = { metadata: { name, namespace: 'team', finalizers } };
    this.objects.set(kind, [...(this.objects.get(kind) ?? []), object]);
    return object;
  }

  run(signal = new AbortController().signal): Promise<void> {
    const times = { patienceMs: 0, deadlineMs: 0 };
    return cleanup({ api: this.api as never, namespace: 'hearth-system', logger: silentLogger, ...times, signal });
  }
}

describe('the clean-up before an uninstallation', () => {
  let cluster: FakeCluster;
  beforeEach(() => {
    cluster = new FakeCluster();
  });

  it('stops the operator for good, and leaves to users what is theirs', async () => {
    cluster.add('StorageCluster', 'main');
    cluster.add('DaemonSet', 'agents');
    const theirs = ['Dataset', 'CachePreload'].map((kind) =>
      cluster.add(kind, 'llama', ['hearth.storage/finalizer', 'example.org/kept']),
    );
    await cluster.run();
    assert.deepEqual(cluster.scaled, [0]);
    assert.deepEqual(
      [...cluster.objects].filter(([, objects]) => objects.length > 0).map(([kind]) => kind),
      ['Dataset', 'CachePreload'],
    );
    for (const { metadata } of theirs) assert.deepEqual(metadata?.finalizers, ['example.org/kept']);
  });

  it('starts the operator again when something would not go: the release stays', async () => {
    cluster.add('DaemonSet', 'agents');
    cluster.stuck.add('DaemonSet');
    await assert.rejects(cluster.run(), { code: 'DeadlineExceeded', message: /had not gone: DaemonSet agents/ });
    assert.deepEqual(cluster.scaled, [0, 2]);
  });

  it('starts it again when the Job is over its time, also after one that was killed', async () => {
    const stop = new AbortController();
    cluster.replicas = 0;
    cluster.add('Pod', 'operator-0');
    cluster.onScale = () => stop.abort(new HearthError('Cancelled', 'over its time'));
    await assert.rejects(cluster.run(stop.signal));
    assert.deepEqual(cluster.scaled, [0, 1]);
  });

  it('needs no operator', async () => {
    cluster.replicas = undefined;
    cluster.add('Secret', 'ca');
    await cluster.run();
    assert.deepEqual(cluster.scaled, []);
    assert.deepEqual(cluster.objects.get('Secret'), []);
  });
});
