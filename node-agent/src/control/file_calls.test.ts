import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { VerifiedFile } from '@hearth/common/generated/hearth/v1/control.ts';
import type { TestCluster } from '../testing/cluster.ts';
import { fileRow } from '../testing/fake_origin.ts';
import { collect, failsWith, TestControl } from './testing/test_control.ts';

describe('files and volumes by the control API', () => {
  let control: TestControl;
  let cluster: TestCluster;
  let client: TestControl['client'];
  let call: TestControl['call'];
  let add: TestControl['add'];
  beforeEach(async () => {
    control = await TestControl.start();
    ({ cluster, client, call, add } = control);
  });
  afterEach(() => control.close());

  it('publishes volumes and keeps a record of them', async () => {
    const { manifest } = (await add()).at(-1)?.dataset ?? { manifest: '' };
    const published = await call('publishVolume', { dataset: 'd', manifest: '', mapsIds: false });
    assert.deepEqual(
      [published.path, published.manifest, published.dataPath, published.bytes, published.files],
      [join(cluster.volumesOf('a'), 'mounts', manifest, 'fuse-d'), manifest, 'fuse', 3_000_010n, 3n],
    );
    const volume = { name: 'pvc-1', dataset: 'd', capacityBytes: 5n, manifest: '' };
    assert.deepEqual(await call('createVolume', volume), volume);
    await assert.rejects(call('createVolume', { ...volume, capacityBytes: 6n }), failsWith('AlreadyExists', /pvc-1/));
    assert.deepEqual(await call('getVolume', { name: 'pvc-1' }), volume);
    assert.deepEqual((await call('listVolumes', {})).volumes, [volume]);
    assert.deepEqual(await call('deleteVolume', { name: 'pvc-1' }), {});
    assert.deepEqual(await call('deleteVolume', { name: 'pvc-1' }), {});
    await assert.rejects(call('getVolume', { name: 'pvc-1' }), failsWith('NotFound', /no volume/));
  });

  it('verifies each file and reads bytes with back-pressure', async () => {
    await add();
    const files = await collect<VerifiedFile>(client.verify({ dataset: 'd', paths: [], mode: '' }));
    assert.deepEqual(
      files.map((file) => [file.path, file.ok, file.originBytes]),
      [
        ['a.bin', true, 3_000_000n],
        ['b/c.bin', true, 10n],
        ['b/d.txt', true, 0n],
      ],
    );
    cluster.engine('a').badBlocks.add('a.bin');
    const repaired = await collect<VerifiedFile>(client.verify({ dataset: 'd', paths: ['a.bin'], mode: '' }));
    assert.deepEqual(
      repaired.map(({ ok, repairedBlocks, message }) => [ok, repairedBlocks, message]),
      [[true, 1n, 'block 0 had changed and were repaired']],
    );
    const whole = Buffer.concat(
      (await collect(client.read({ dataset: 'd', path: 'a.bin', offset: 0n, length: 0n }))).map((chunk) => chunk.data),
    );
    assert.equal(whole.length, 3_000_000);
    assert.equal(whole[1_000_003], 1_000_003 % 256);
    const part = await collect(client.read({ dataset: 'd', path: 'b/c.bin', offset: 3n, length: 4n }));
    assert.deepEqual([...(part[0]?.data ?? [])], [3, 4, 5, 6]);
    assert.deepEqual(await collect(client.read({ dataset: 'd', path: 'b/d.txt', offset: 0n, length: 0n })), []);
    await assert.rejects(
      collect(client.read({ dataset: 'd', path: 'b', offset: 0n, length: 0n })),
      failsWith('NotFound', /no file b/),
    );
    await assert.rejects(
      collect(client.read({ dataset: 'd', path: 'b/c.bin', offset: 11n, length: 0n })),
      failsWith('InvalidArgument', /beyond the end/),
    );
  });

  it('serves the whole file only when its digest matches', async () => {
    const sourceDigest = createHash('sha256')
      .update(Uint8Array.of(0, 1, 2, 3, 4))
      .digest('hex');
    cluster.origin.rows = [
      { ...fileRow('good', 5n), sourceDigest },
      { ...fileRow('mixed', 3_000_000n), sourceDigest },
    ];
    await add();
    const read = (path: string, length = 0n) => client.read({ dataset: 'd', path, offset: 0n, length });
    assert.deepEqual([...((await collect(read('good')))[0]?.data ?? [])], [0, 1, 2, 3, 4]);
    assert.equal((await collect(read('mixed', 4n)))[0]?.data.length, 4);
    let given = 0;
    const readAll = async () => {
      for await (const { data } of read('mixed')) given += data.length;
    };
    await assert.rejects(readAll(), failsWith('OriginChanged', /mixed does not match its listed SHA-256/));
    assert.ok(given > 0 && given < 3_000_000);
  });
});
