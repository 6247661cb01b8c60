import assert from 'node:assert/strict';
import type { AccessPublication, ClientAccess } from '../access/index.ts';
import {
  VolumeCapability_AccessMode_Mode as Mode,
  NodeServiceCapability_RPC_Type as Rpc,
} from '../generated/csi/csi.ts';
import {
  capability,
  inlineContext,
  manifest,
  publishRequest,
  volumeContext,
  writableContext,
} from '../testing/samples.ts';
import { NodeService } from './node_service.ts';
import type { Publication, Publications } from './publications.ts';
import type { PublishedRecord } from './published_records.ts';

const target = '/kubelet/pods/1/mount';
const signal = new AbortController().signal;
const invalid = { status: 'INVALID_ARGUMENT' };

/** Remembers what it was asked for; a publish ends when the test says so. */
class FakePublications {
  readonly asked: Publication[] = [];
  readonly unpublished: [string, string][] = [];
  record: Partial<PublishedRecord> | undefined;
  gate: Promise<void> = Promise.resolve();

  async publish(publication: Publication): Promise<void> {
    this.asked.push(publication);
    await this.gate;
  }

  async unpublish(volume: string, path: string): Promise<void> {
    this.unpublished.push([volume, path]);
  }

  async published(): Promise<Partial<PublishedRecord> | undefined> {
    return this.record;
  }

  async space(record: Partial<PublishedRecord>) {
    const space = { bytes: 1024n, bytesFree: 24n, files: 64n, filesFree: 60n };
    return record.dataset?.startsWith('volume:') ? space : undefined;
  }
}

class FakeAccess {
  readonly asked: AccessPublication[] = [];
  readonly renewed: string[] = [];
  gate: Promise<void> = Promise.resolve();
  /** Where it has something. */
  target: string | undefined;

  async publish(publication: AccessPublication): Promise<void> {
    this.asked.push(publication);
    this.target = publication.target;
  }

  async unpublish(_volume: string, path: string): Promise<boolean> {
    if (path !== this.target) return false;
    this.target = undefined;
    return true;
  }

  async renewal(path: string): Promise<{ path: string }> {
    await this.gate;
    return { path };
  }

  async refill({ path }: { path: string }): Promise<void> {
    this.renewed.push(path);
  }

  async space(_volume: string, path: string) {
    return path === this.target ? { bytes: 1024n, bytesFree: 1000n, files: 64n, filesFree: 60n } : undefined;
  }
}

describe('NodeService', () => {
  let publications: FakePublications;
  let access: FakeAccess;
  let service: NodeService;
  let clusters: string[];
  beforeEach(() => {
    publications = new FakePublications();
    access = new FakeAccess();
    clusters = [];
    service = new NodeService({
      node: 'n1',
      publications: publications as unknown as Publications,
      access: access as unknown as ClientAccess,
      clusters: async () => clusters,
    });
  });

  it('offers what it does, and no expansion or health', () => {
    const types = service.nodeGetCapabilities().capabilities.map(({ type }) => type?.value.type);
    assert.deepEqual(types, [
      Rpc.STAGE_UNSTAGE_VOLUME,
      Rpc.GET_VOLUME_STATS,
      Rpc.SINGLE_NODE_MULTI_WRITER,
      Rpc.VOLUME_MOUNT_GROUP,
    ]);
  });

  it('gives the StorageClusters on the node as its topology', async () => {
    const info = { nodeId: 'n1', maxVolumesPerNode: 0n };
    assert.deepEqual(await service.nodeGetInfo(), { ...info, accessibleTopology: { segments: {} } });
    clusters = ['models'];
    const segments = { 'cluster.csi.hearth.storage/models': 'true', 'csi.hearth.storage/agent': 'true' };
    assert.deepEqual(await service.nodeGetInfo(), { ...info, accessibleTopology: { segments } });
  });

  it('stages nothing, but checks what it is given', () => {
    const request = {
      volumeId: 'v',
      stagingTargetPath: '/staging',
      volumeCapability: capability(),
      volumeContext,
      publishContext: {},
      secrets: {},
    };
    assert.deepEqual(service.nodeStageVolume(request), {});
    assert.deepEqual(service.nodeStageVolume(request), {});
    assert.deepEqual(service.nodeUnstageVolume(request), {});
    for (const bad of [
      { volumeId: '' },
      { stagingTargetPath: '' },
      { volumeCapability: undefined },
      { volumeContext: {} },
    ]) {
      assert.throws(() => service.nodeStageVolume({ ...request, ...bad }), invalid);
    }
    assert.throws(() => service.nodeUnstageVolume({ volumeId: '', stagingTargetPath: '/s' }), invalid);
    assert.throws(() => service.nodeUnstageVolume({ volumeId: 'v', stagingTargetPath: '' }), invalid);
  });

  it('publishes an inline volume for the pod that the kubelet names', async () => {
    await service.nodePublishVolume(
      publishRequest(`${target}//x/..//`, { volumeContext: inlineContext, readonly: true }),
      signal,
    );
    assert.deepEqual(publications.asked, [
      {
        volume: 'pvc-1',
        target,
        choice: { cluster: undefined, namespace: 'team', dataset: 'model', revision: '' },
        usage: { singleTarget: false, noexec: false },
        readOnly: true,
        group: undefined,
        pod: { namespace: 'team', name: 'reader-0', uid: '6a0e' },
      },
    ]);
  });

  it('publishes a PersistentVolume from its attributes, with no pod named', async () => {
    const context = { ...volumeContext, 'csi.storage.k8s.io/ephemeral': 'false' };
    await service.nodePublishVolume(publishRequest(target, { volumeContext: context }), signal);
    const [asked] = publications.asked;
    assert.deepEqual(asked?.choice, { cluster: 'c', namespace: 'team', dataset: 'model', revision: '' });
    assert.equal(asked?.pod, undefined);
    assert.equal(asked?.readOnly, false);
  });

  it('publishes a writable volume, for writing unless the pod asks for readOnly, and says what is left of it', async () => {
    const grouped = capability(Mode.MULTI_NODE_MULTI_WRITER);
    if (grouped.accessType?.$case === 'mount') grouped.accessType.value.volumeMountGroup = '2000';
    const request = { volumeContext: writableContext, volumeCapability: grouped };
    await service.nodePublishVolume(publishRequest(target, request), signal);
    await service.nodePublishVolume(publishRequest(target, { ...request, readonly: true }), signal);
    const [writing, reading] = publications.asked;
    assert.deepEqual(writing?.choice, { cluster: 'c', volume: 'pvc-1' });
    assert.deepEqual([writing?.usage.writable, writing?.group], [true, 2000]);
    assert.equal(reading?.usage.writable, undefined);
    const option = capability(Mode.MULTI_NODE_MULTI_WRITER, ['ro']);
    await assert.rejects(
      service.nodePublishVolume(publishRequest(target, { ...request, volumeCapability: option }), signal),
      { ...invalid, message: /readOnly in the pod/ },
    );
    const inline = { ...inlineContext, volume: 'pvc-1' };
    await assert.rejects(service.nodePublishVolume(publishRequest(target, { volumeContext: inline }), signal), {
      ...invalid,
      message: /unknown attributes: volume/,
    });
    publications.record = { dataset: 'volume:pvc-1', bytes: 0n, files: 0n };
    const stats = await service.nodeGetVolumeStats({ volumeId: 'pvc-1', volumePath: target, stagingTargetPath: '' });
    assert.deepEqual(stats.usage[0], { unit: 1, total: 1024n, used: 1000n, available: 24n });
  });

  it('publishes, renews, measures and unpublishes client access where an inline volume asks for it', async () => {
    const { dataset: _, ...pod } = inlineContext;
    const volumeContext = { ...pod, clientAccess: 'true', datasets: 'model' };
    await service.nodePublishVolume(publishRequest(target, { volumeContext, readonly: true }), signal);
    assert.deepEqual(access.asked, [
      {
        volume: 'pvc-1',
        target,
        choice: { cluster: undefined, namespace: 'team', datasets: ['model'], rights: ['read'] },
        group: undefined,
        readOnly: true,
        pod: { namespace: 'team', name: 'reader-0', uid: '6a0e' },
      },
    ]);
    await service.renewAccess(target, signal);
    assert.deepEqual(access.renewed, [target]);
    const stats = await service.nodeGetVolumeStats({ volumeId: 'pvc-1', volumePath: target, stagingTargetPath: '' });
    assert.deepEqual(stats.usage, [
      { unit: 1, total: 1024n, used: 24n, available: 1000n },
      { unit: 2, total: 64n, used: 4n, available: 60n },
    ]);
    await service.nodeUnpublishVolume({ volumeId: 'pvc-1', targetPath: target });
    assert.deepEqual(publications.unpublished, []);
    await service.nodeUnpublishVolume({ volumeId: 'pvc-1', targetPath: target });
    assert.deepEqual(publications.unpublished, [['pvc-1', target]]);
  });

  it('unpublishes while the agent is slow to give a new token', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    access.target = target;
    access.gate = promise;
    const renewing = service.renewAccess(target, signal);
    await service.nodeUnpublishVolume({ volumeId: 'pvc-1', targetPath: target });
    assert.equal(access.target, undefined);
    resolve();
    await renewing;
  });

  it('refuses client access by a PersistentVolume', async () => {
    const context = { clientAccess: 'true', datasets: 'model' };
    await assert.rejects(service.nodePublishVolume(publishRequest(target, { volumeContext: context }), signal), {
      ...invalid,
      message: /inline volumes/,
    });
    assert.deepEqual(access.asked, []);
  });

  it('takes volume ids of any length and characters', async () => {
    for (const volumeId of ['x'.repeat(5000), '../../etc', 'a b\n/ü', '-']) {
      await service.nodePublishVolume(publishRequest(target, { volumeId }), signal);
      assert.equal(publications.asked.at(-1)?.volume, volumeId);
    }
  });

  it('refuses what lacks something', async () => {
    for (const bad of [{ volumeId: '' }, { targetPath: '' }, { volumeCapability: undefined }, { volumeContext: {} }]) {
      await assert.rejects(service.nodePublishVolume(publishRequest(target, bad), signal), invalid);
    }
    await assert.rejects(service.nodeUnpublishVolume({ volumeId: '', targetPath: target }), invalid);
    await assert.rejects(service.nodeUnpublishVolume({ volumeId: 'v', targetPath: '' }), invalid);
    assert.deepEqual(publications.asked, []);
  });

  it('aborts a second operation for a target under way, and lets other targets through', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    publications.gate = promise;
    const first = service.nodePublishVolume(publishRequest(target), signal);
    await assert.rejects(service.nodePublishVolume(publishRequest(`${target}/`), signal), { status: 'ABORTED' });
    await assert.rejects(service.nodeUnpublishVolume({ volumeId: 'pvc-1', targetPath: target }), { status: 'ABORTED' });
    const other = service.nodePublishVolume(publishRequest('/kubelet/pods/2/mount'), signal);
    resolve();
    await Promise.all([first, other]);
    await service.nodeUnpublishVolume({ volumeId: 'pvc-1', targetPath: target });
    assert.deepEqual(publications.unpublished, [['pvc-1', target]]);
  });

  it('publishes a volume for one pod at a time, one after the other', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    publications.gate = promise;
    const single = { volumeCapability: capability(Mode.SINGLE_NODE_SINGLE_WRITER) };
    const first = service.nodePublishVolume(publishRequest(target, single), signal);
    await assert.rejects(service.nodePublishVolume(publishRequest('/kubelet/pods/2/mount', single), signal), {
      status: 'ABORTED',
    });
    resolve();
    await first;
  });

  it('gives sizes of the manifest, and no capacity that could be used up', async () => {
    publications.record = { bytes: 2n ** 63n - 1n, files: 12n, manifest: manifest('a') };
    const { usage } = await service.nodeGetVolumeStats({ volumeId: 'v', volumePath: target, stagingTargetPath: '' });
    assert.deepEqual(usage, [
      { unit: 1, total: 0n, used: 2n ** 63n - 1n, available: 0n },
      { unit: 2, total: 0n, used: 12n, available: 0n },
    ]);
    publications.record = undefined;
    for (const volumePath of [target, 'some/path']) {
      await assert.rejects(service.nodeGetVolumeStats({ volumeId: 'v', volumePath, stagingTargetPath: '' }), {
        status: 'NOT_FOUND',
        message: /not published at .* on node n1/,
      });
    }
    for (const bad of [{ volumeId: '' }, { volumePath: '' }]) {
      await assert.rejects(
        service.nodeGetVolumeStats({ volumeId: 'v', volumePath: target, stagingTargetPath: '', ...bad }),
        invalid,
      );
    }
  });
});
