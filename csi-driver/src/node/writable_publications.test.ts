import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import type { PublishVolumeRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import { TemporaryFolder } from '@hearth/common/testing';
import type { NodeAgent } from '../agent/index.ts';
import { mountAt } from '../mounts/index.ts';
import { FakeMounts } from '../testing/fake_mounts.ts';
import { type Publication, Publications } from './publications.ts';
import { PublishedRecords } from './published_records.ts';

const id = 'ab'.repeat(16);
const target = '/kubelet/pods/1/mount';
const signal = new AbortController().signal;
const publication: Publication = {
  volume: 'pvc-1',
  target,
  choice: { cluster: 'c', volume: 'pvc-1' },
  usage: { singleTarget: false, noexec: false, writable: true },
  readOnly: false,
  group: 2000,
  pod: undefined,
};

describe('publications of writable volumes', () => {
  const folder = new TemporaryFolder('csi');
  let mounts: FakeMounts;
  let records: PublishedRecords;
  let asked: Partial<PublishVolumeRequest>[];
  let publications: Publications;
  let failure: HearthError | undefined;
  const path = folder.file('c/mounts', id, 'fuse-volume:pvc-1');
  const options = () => mountAt(mounts.entries, target)?.options;

  beforeEach(() => {
    mounts = new FakeMounts();
    mounts.add(path, '0:80', ['rw']);
    records = new PublishedRecords(folder.path, silentLogger);
    asked = [];
    failure = undefined;
    const call = async (_name: string, request: Partial<PublishVolumeRequest>) => {
      if (failure !== undefined) throw failure;
      asked.push(request);
      return { path, manifest: id, dataPath: 'fuse', reason: '', bytes: 0n, files: 0n };
    };
    const agent = { cluster: 'c', directory: folder.file('c'), control: { call } } as unknown as NodeAgent;
    publications = new Publications({ agents: { find: async () => agent }, mounts, records, logger: silentLogger });
  });
  afterEach(() => publications.unpublish('pvc-1', target));
  after(() => folder.remove());

  it('are mounts for writing, with the group of the pod, and a retry changes nothing', async () => {
    for (let round = 0; round < 2; round++) await publications.publish(publication, signal);
    assert.deepEqual(asked, [{ dataset: 'volume:pvc-1', manifest: '', mapsIds: false }]);
    assert.deepEqual(options(), ['rw', 'nosuid', 'nodev']);
    assert.equal(mounts.groups.get(target), 2000);
    const record = await records.find(target);
    assert.deepEqual([record?.dataset, record?.manifest, record?.writable], ['volume:pvc-1', id, true]);
    assert.ok(record);
    assert.deepEqual(await publications.space(record), await mounts.space());
  });

  it('are read-only mounts, which no group writes, for pods that ask for readOnly', async () => {
    const usage = { singleTarget: false, noexec: true };
    await publications.publish({ ...publication, usage, readOnly: true }, signal);
    assert.deepEqual(options(), ['ro', 'nosuid', 'nodev', 'noexec']);
    assert.equal(mounts.groups.size, 0);
    assert.equal((await records.find(target))?.writable, undefined);
  });

  it('are for writing again after agent and holder were lost', async () => {
    await publications.publish(publication, signal);
    await mounts.unmount(path);
    mounts.add(path, '0:81', ['rw']);
    assert.equal(await publications.rebind('c', target, folder.file('c/mounts'), new Date()), true);
    assert.deepEqual(options(), ['rw', 'nosuid', 'nodev']);
    assert.equal(mountAt(mounts.entries, target)?.device, '0:81');
    while (options() !== undefined) await mounts.unmount(target);
  });

  it('are refused with the name of the volume', async () => {
    failure = new HearthError('NotFound', 'there is no volume pvc-1');
    await assert.rejects(publications.publish(publication, signal), {
      message: 'volume pvc-1 of StorageCluster c cannot be published: there is no volume pvc-1',
    });
    assert.deepEqual(await records.all(), []);
  });
});
