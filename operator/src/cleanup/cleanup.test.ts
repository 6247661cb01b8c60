import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import type { KubernetesObject, ResourceType } from '@hearth/common/kubernetes';
import { cleanup } from './cleanup.ts';

/** Objects by kind, whose component their names begin with; those of kinds in `stuck` stay when they are deleted. */
class FakeCluster {
  readonly objects = new Map<string, KubernetesObject[]>();
  readonly stuck = new Set<string>();
  replicas: number | undefined = 2;
  readonly scaled: number[] = [];
  /** Called when it is scaled. */
  onScale = () => {};
  onDelete = (_object: string) => {};

  readonly api = {
    get: async (type: ResourceType) => {
      assert.equal(type.kind, 'Deployment');
      return this.replicas === undefined ? undefined : { spec: { replicas: this.replicas } };
    },
    list: async (type: ResourceType, { labelSelector = '' }: { labelSelector?: string }) => {
      const [, component = ''] = /component=(\w+)/.exec(labelSelector) ?? [];
      const objects = this.objects.get(type.kind) ?? [];
      const items = objects.filter(({ metadata }) => metadata?.name?.startsWith(component) === true);
      return { items, resourceVersion: '1' };
    },
    delete: async (type: ResourceType, name: string) => {
      const left = (this.objects.get(type.kind) ?? []).filter(({ metadata }) => metadata?.name !== name);
      if (!this.stuck.has(type.kind)) this.objects.set(type.kind, left);
      this.onDelete(`${type.kind} ${name}`);
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

  run(signal = new AbortController().signal, force = false): Promise<void> {
    const more = { force, timeoutMs: 0, deadlineMs: 0, signal };
    return cleanup({ api: this.api as never, namespace: 'hearth-system', logger: silentLogger, ...more });
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
    await assert.rejects(cluster.run(), {
      code: 'DeadlineExceeded',
      message: /these objects still exist: DaemonSet agents/,
    });
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

  describe('while pods mount volumes of ours', () => {
    const inline = { name: 'models', csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset: 'llama' } } };
    const ofClaim = { name: 'models', persistentVolumeClaim: { claimName: 'weights' } };
    const podWith = (name: string, volume: object, more: object = {}) =>
      Object.assign(cluster.add('Pod', name), { spec: { nodeName: 'n1', volumes: [volume], ...more } });
    const volumeOf = (driver: string, claim: string) =>
      Object.assign(cluster.add('PersistentVolume', `pv-${claim}`), {
        spec: { csi: { driver }, claimRef: { namespace: 'team', name: claim } },
      });

    it('names them and removes nothing', async () => {
      cluster.add('StorageCluster', 'main');
      volumeOf('csi.hearth.storage', 'weights');
      podWith('a', inline);
      podWith('b', ofClaim);
      podWith('c', { name: 'models', ephemeral: { volumeClaimTemplate: { spec: {} } } });
      volumeOf('csi.hearth.storage', 'c-models');
      await assert.rejects(cluster.run(), {
        code: 'InUse',
        message:
          /^refusing to uninstall.* team\/a on n1, team\/b on n1, team\/c on n1; delete them and uninstall again/,
      });
      assert.equal(cluster.objects.get('StorageCluster')?.length, 1);
      assert.deepEqual(cluster.scaled, []);
    });

    it('removes nothing but agents, which come again, when one began until the last of them went', async () => {
      for (const [kind, name] of [
        ['StorageCluster', 'main'],
        ['DaemonSet', 'agents'],
        ['DaemonSet', 'holders'],
        ['StatefulSet', 'etcd'],
        ['Secret', 'ca'],
      ] as const) {
        cluster.add(kind, name, ['hearth.storage/finalizer']);
      }
      cluster.onDelete = (object) => {
        if (object === 'DaemonSet agents') podWith('late', inline);
      };
      await assert.rejects(cluster.run(), { code: 'InUse', message: /team\/late on n1/ });
      const left = [...cluster.objects].flatMap(([kind, objects]) =>
        objects.map(({ metadata }) => `${kind} ${metadata?.name}`),
      );
      assert.deepEqual(left.sort(), [
        'DaemonSet holders',
        'Pod late',
        'Secret ca',
        'StatefulSet etcd',
        'StorageCluster main',
      ]);
      assert.deepEqual(cluster.objects.get('StorageCluster')?.[0]?.metadata?.finalizers, ['hearth.storage/finalizer']);
      assert.deepEqual(cluster.scaled, [0, 2], 'it makes the agents again, and holders have kept the mounts');
    });

    it('fails also when one began meanwhile, which nothing could end: csi-node stays', async () => {
      cluster.onScale = () => {
        if (cluster.replicas === 0) podWith('late', inline);
      };
      await assert.rejects(cluster.run(), { code: 'InUse', message: /team\/late on n1/ });
      assert.deepEqual(cluster.scaled, [0, 2]);
    });

    it('names the first of many', async () => {
      for (let index = 0; index < 30; index++) podWith(`p${index}`, inline);
      await assert.rejects(cluster.run(), { message: /team\/p17 on n1 and 20 more; / });
    });

    it('goes on when they mount those of others, have ended or were never on a node, and when it is forced', async () => {
      volumeOf('other.example.org', 'weights');
      podWith('other', ofClaim);
      podWith('waiting', inline, { nodeName: undefined });
      Object.assign(podWith('ended', inline), { status: { phase: 'Succeeded' } });
      cluster.replicas = undefined;
      await cluster.run();
      podWith('reader', inline);
      cluster.add('StorageCluster', 'main');
      await cluster.run(undefined, true);
      assert.deepEqual(cluster.objects.get('StorageCluster'), []);
    });
  });

  it('needs no operator', async () => {
    cluster.replicas = undefined;
    cluster.add('Secret', 'ca');
    await cluster.run();
    assert.deepEqual(cluster.scaled, []);
    assert.deepEqual(cluster.objects.get('Secret'), []);
  });
});
