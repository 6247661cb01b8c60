import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { TemporaryFolder } from '@hearth/common/testing';
import { SocketCalls } from '../agent/control_calls.ts';
import { CreateVolumeRequest, VolumeCapability_AccessMode_Mode as Mode } from '../generated/csi/csi.ts';
import { FakeAgent } from '../testing/fake_agent.ts';
import { capability, manifest } from '../testing/samples.ts';
import { ControllerService, pageOf, volumeIdOf } from './controller_service.ts';

const GiB = 1n << 30n;
const signal = new AbortController().signal;

describe('ControllerService, over the control API of an agent', () => {
  let folder: TemporaryFolder;
  let agent: FakeAgent;
  let control: SocketCalls;
  let service: ControllerService;
  beforeEach(async () => {
    folder = new TemporaryFolder('csi');
    agent = new FakeAgent(folder.path, 'c');
    agent.datasets.set('team.model', { bytes: 3n * GiB, manifest: manifest('a'), message: '' });
    await agent.start();
    control = new SocketCalls(agent.socket, 5000);
    service = new ControllerService(control);
  });
  afterEach(async () => {
    agent.stop();
    await folder.remove();
  });

  const request = (changes: Partial<CreateVolumeRequest> = {}): CreateVolumeRequest => ({
    ...CreateVolumeRequest.fromPartial({}),
    name: 'pvc-1',
    volumeCapabilities: [capability()],
    parameters: { datasetNamespace: 'team', dataset: 'model' },
    ...changes,
  });
  const create = async (changes: Partial<CreateVolumeRequest> = {}) => {
    const { volume } = await service.createVolume(request(changes), signal);
    assert.ok(volume);
    return volume;
  };
  const range = (requiredBytes: bigint, limitBytes = 0n) => ({ capacityRange: { requiredBytes, limitBytes } });

  it('gives a volume of the size of its dataset, or of what was asked for if that is more', async () => {
    assert.deepEqual(await create(), {
      volumeId: 'pvc-1',
      capacityBytes: 3n * GiB,
      volumeContext: { cluster: 'c', datasetNamespace: 'team', dataset: 'model' },
      contentSource: undefined,
      accessibleTopology: [{ segments: { 'cluster.csi.hearth.storage/c': 'true' } }],
    });
    assert.equal((await create({ name: 'pvc-2', ...range(GiB) })).capacityBytes, 3n * GiB);
    assert.equal((await create({ name: 'pvc-3', ...range(10n * GiB) })).capacityBytes, 10n * GiB);
    await assert.rejects(create({ name: 'pvc-4', ...range(0n, GiB) }), { status: 'OUT_OF_RANGE' });
  });

  it('gives the same volume for the same name, also when the dataset has grown or gone', async () => {
    const first = await create(range(GiB));
    agent.datasets.set('team.model', { bytes: 9n * GiB, manifest: manifest('b'), message: '' });
    assert.deepEqual(await create(range(GiB)), first);
    agent.datasets.clear();
    assert.deepEqual(await create(), first);
  });

  it('refuses a name that was given to something else', async () => {
    await create(range(10n * GiB, 10n * GiB));
    for (const other of [
      range(20n * GiB, 20n * GiB),
      range(0n, 5n * GiB),
      { parameters: { datasetNamespace: 'other', dataset: 'model' } },
      { parameters: { datasetNamespace: 'team', dataset: 'model', revision: manifest('c') } },
    ]) {
      await assert.rejects(create(other), {
        status: 'ALREADY_EXISTS',
        message: /volume pvc-1 was made for dataset team.model/,
      });
    }
  });

  it('gives one volume when two calls for a name run at the same time', async () => {
    const [one, two] = await Promise.all([create(range(5n * GiB)), create(range(5n * GiB))]);
    assert.deepEqual(one, two);
    const call = control.call.bind(control);
    let first = true;
    control.call = async (name, ...args) => {
      if (name === 'getVolume' && first) {
        first = false;
        throw new HearthError('NotFound', 'there is no volume yet');
      }
      return await call(name, ...args);
    };
    // Another call has made the volume between our look and our write.
    assert.equal((await create(range(4n * GiB, 6n * GiB))).capacityBytes, 5n * GiB);
    first = true;
    await assert.rejects(create(range(9n * GiB)), { status: 'ALREADY_EXISTS' });
  });

  it('pins a revision, and takes names of every kind', async () => {
    const parameters = { datasetNamespace: 'team', dataset: 'model', revision: manifest('a'), cluster: 'c' };
    const pinned = await create({ parameters });
    assert.equal(pinned.volumeContext.revision, manifest('a'));
    const odd = await create({ name: 'a name/with ü and\nmore' });
    assert.match(odd.volumeId, /^volume-[0-9a-f]{40}$/);
    assert.equal((await create({ name: 'x'.repeat(128) })).volumeId, 'x'.repeat(128));
    assert.equal(volumeIdOf('a'), 'a');
    for (const name of ['', 'x'.repeat(129), 'ü'.repeat(65), 'a\u0007', 'a\u009f']) {
      await assert.rejects(create({ name }), { status: 'INVALID_ARGUMENT' }, JSON.stringify(name));
    }
  });

  it('reports what it waits for, and what is wrong', async () => {
    const parameters = (dataset: string) => ({ parameters: { datasetNamespace: 'team', dataset } });
    await assert.rejects(create(parameters('absent')), {
      status: 'NOT_FOUND',
      message: 'Dataset team/absent is not known in StorageCluster c; check: kubectl -n team get dataset absent',
    });
    agent.datasets.set('team.new', { bytes: 0n, manifest: '', message: 'the origin asks for credentials' });
    await assert.rejects(create(parameters('new')), {
      status: 'UNAVAILABLE',
      message: /Dataset team\/new has no revision yet \(the origin asks for credentials\)/,
    });
    await assert.rejects(create({ parameters: { ...request().parameters, cluster: 'other' } }), {
      status: 'INVALID_ARGUMENT',
      message: /serves StorageCluster c, and the parameter cluster names other/,
    });
    const bad: Partial<CreateVolumeRequest>[] = [
      { volumeCapabilities: [] },
      { volumeCapabilities: [{ ...capability(), accessType: { $case: 'block', value: {} } }] },
      { parameters: {} },
      { parameters: { ...request().parameters, size: '1' } },
      { mutableParameters: { a: 'b' } },
      { volumeContentSource: { type: { $case: 'volume', value: { volumeId: 'v' } } } },
      range(-1n),
      range(2n, 1n),
    ];
    for (const changes of bad) await assert.rejects(create(changes), { status: 'INVALID_ARGUMENT' });
    for (const mode of Object.values(Mode).filter((one) => one > 0)) {
      await create({ name: `mode-${mode}`, volumeCapabilities: [capability(mode)] });
    }
  });

  it('deletes what is there, and what is not', async () => {
    await create();
    for (let i = 0; i < 2; i++) {
      await service.deleteVolume({ volumeId: 'pvc-1', secrets: {} }, signal);
      assert.equal(agent.volumes.size, 0);
    }
    await service.deleteVolume({ volumeId: '../odd id', secrets: {} }, signal);
    await assert.rejects(service.deleteVolume({ volumeId: '', secrets: {} }, signal), { status: 'INVALID_ARGUMENT' });
  });

  it('confirms capabilities of volumes that there are', async () => {
    const { volumeContext } = await create();
    const block = { ...capability(), accessType: { $case: 'block', value: {} } } as const;
    const validate = (volumeId: string, volumeCapabilities: ReturnType<typeof capability>[]) =>
      service.validateVolumeCapabilities(
        { volumeId, volumeCapabilities, volumeContext, parameters: {}, secrets: {}, mutableParameters: {} },
        signal,
      );
    const { confirmed } = await validate('pvc-1', [capability()]);
    assert.deepEqual(confirmed?.volumeCapabilities, [capability()]);
    const refused = await validate('pvc-1', [block]);
    assert.equal(refused.confirmed, undefined);
    assert.match(refused.message, /block device/);
    await assert.rejects(validate('absent', [capability()]), { status: 'NOT_FOUND' });
    await assert.rejects(validate('', [capability()]), { status: 'INVALID_ARGUMENT' });
    await assert.rejects(validate('pvc-1', []), { status: 'INVALID_ARGUMENT' });
  });

  it('lists in pages that lose and repeat nothing', async () => {
    for (const name of ['b', 'a', 'd', 'c']) await create({ name });
    await agent.volumes.set('foreign', { name: 'foreign', dataset: 'local', capacityBytes: 1n, manifest: '' });
    const list = async (maxEntries: number, startingToken = '') => {
      const { entries, nextToken } = await service.listVolumes({ maxEntries, startingToken }, signal);
      return { ids: entries.map(({ volume }) => volume?.volumeId), nextToken };
    };
    assert.deepEqual(await list(0), { ids: ['a', 'b', 'c', 'd'], nextToken: '' });
    const first = await list(2);
    assert.deepEqual(first.ids, ['a', 'b']);
    await service.deleteVolume({ volumeId: 'b', secrets: {} }, signal);
    assert.deepEqual(await list(2, first.nextToken), { ids: ['c', 'd'], nextToken: '' });
    await assert.rejects(list(0, 'invalid-token'), { status: 'ABORTED' });
    await assert.rejects(list(-1), { status: 'INVALID_ARGUMENT' });
    assert.throws(() => pageOf([], 0, 'x'), { status: 'ABORTED' });
  });

  it('passes the errors of the agent on, and says when there is none', async () => {
    agent.stop();
    await assert.rejects(create(), (error: HearthError) => error.code === 'Unavailable');
  });
});
