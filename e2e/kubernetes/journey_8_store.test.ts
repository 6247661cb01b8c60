import assert from 'node:assert/strict';
import { MiB, ok, until } from '@hearth/common/testing';
import { type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { clusterName, useJourney } from './journey.ts';
import { JourneyModel } from './journey_model.ts';

const members = ['hearth-main-etcd-0', 'hearth-main-etcd-1', 'hearth-main-etcd-2'];

describe('a store of three members', () => {
  const journey = useJourney('store');
  let model: JourneyModel;

  before(async () => {
    model = await JourneyModel.start(journey(), 91);
    await journey().ready('dataset/model');
    await journey().apply(model.reader('warmer', { command: 'cat /models/weights > /dev/null' }));
    await journey().finished('warmer');
    await model.cached('all of it is there');
    // Its volume is the cache's files, which need no agent, no holder and no StorageCluster.
    await journey().apply(model.reader('reader'));
    await journey().ready('pod/reader');
    await model.readsRight('reader');
  });

  const inSystem = (...args: string[]) => ok(journey().cluster.kubectl(['-n', releaseNamespace, ...args]));
  async function etcdPods(): Promise<Manifest[]> {
    const select = ['-l', 'app.kubernetes.io/component=etcd', '-o', 'json'];
    return JSON.parse(await inSystem('get', 'pods', ...select)).items as Manifest[];
  }
  const uids = async () => (await etcdPods()).map(({ metadata }) => (metadata as { uid?: string }).uid).sort();
  const isReady = ({ status }: Manifest) => status.containerStatuses?.every((one: { ready: boolean }) => one.ready);
  async function allReady(): Promise<void> {
    const ready = async () => {
      const pods = await etcdPods();
      return pods.length === 3 && pods.every(isReady);
    };
    await until('three members are ready', ready).catch(async (error) => {
      throw new Error(`${error.message}: ${JSON.stringify((await etcdPods()).map(({ status }) => status))}`);
    });
    await journey().ready(`storagecluster/${clusterName}`);
  }
  /** The store knows the Dataset, and volumes can be made from it. */
  async function servesNewPods(name: string): Promise<void> {
    await journey().ready('dataset/model');
    await model.cached('its bytes are known again');
    await journey().apply(model.reader(name));
    await journey().ready(`pod/${name}`);
    await model.readsRight(name);
    await journey().remove(`pod/${name}`);
  }

  it('cannot be made of one member in place', async () => {
    const object = journey().storageCluster;
    object.spec.store.etcd.replicas = 3;
    const { code, stderr } = await journey().kubectl(['apply', '-f', '-'], { input: JSON.stringify(object) });
    assert.notEqual(code, 0);
    assert.match(stderr, /cannot be changed in place; give other endpoints, or make another StorageCluster/);
  });

  it('comes with another StorageCluster in the place of the first, which finds all bytes again', async () => {
    const sent = journey().origin.sentBytes;
    // Its readers read on from a view, which needs no agent.
    await journey().must('annotate', 'storagecluster', clusterName, 'hearth.storage/force-deletion=true');
    await journey().must('delete', 'storagecluster', clusterName, '--timeout=300s');
    await model.readsRight('reader');
    const object = journey().storageCluster;
    object.spec.store.etcd.replicas = 3;
    await journey().apply(object);
    await allReady();
    await model.readsRight('reader');
    await servesNewPods('first');
    assert.ok(
      journey().origin.sentBytes - sent < MiB,
      `${journey().origin.sentBytes - sent} bytes were asked for again`,
    );
  });

  it('goes on without one of them, which comes back with what it had', async () => {
    const before = await uids();
    const [member] = await etcdPods();
    const node = journey().cluster.nodes.find(({ name }) => name === member?.spec.nodeName);
    const restarts = async () =>
      (await etcdPods()).find(({ metadata }) => metadata.name === members[0])?.status.containerStatuses[0]
        .restartCount as number;
    const ended = await restarts();
    await node?.machine.must('pkill', '-KILL', '-f', '^etcd --name=hearth-main-etcd-0 ');
    await journey().apply(journey().dataset('meanwhile', { selfTest: {} }));
    await journey().ready('dataset/meanwhile');
    await until('it was started again', async () => (await restarts()) > ended);
    await allReady();
    assert.deepEqual(await uids(), before, 'no pod was replaced');
  });

  it('begins again when one has lost its data, and pods read meanwhile', async () => {
    const before = await uids();
    await inSystem('delete', 'pod', members[1] as string);
    await until('all of them are others', async () => {
      await model.readsRight('reader');
      const now = await uids();
      return now.length === 3 && now.every((uid) => !before.includes(uid));
    });
    await allReady();
    await until('an event that says so', async () => {
      const events = await ok(journey().cluster.kubectl(['events', '--for', `storagecluster/${clusterName}`]));
      return /StoreRebuilt .*Give the store volumes/.test(events);
    });
    await servesNewPods('second');
  });

  it('begins again when all are lost at once', async () => {
    const before = await uids();
    await inSystem('delete', 'pods', ...members);
    await model.readsRight('reader');
    await until('all of them are others', async () => {
      const now = await uids();
      return now.length === 3 && now.every((uid) => !before.includes(uid));
    });
    await allReady();
    await servesNewPods('third');
    await journey().remove('pod/reader');
  });
});
