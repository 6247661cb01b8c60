import assert from 'node:assert/strict';
import { ok } from '../cluster/testing/ok.ts';
import { until } from '../src/command.ts';
import { bytesOf, MiB, sha256 } from '../src/sample.ts';
import { type Manifest, releaseNamespace } from './chart.ts';
import { FileOrigin } from './file_origin.ts';
import { clusterName, inline, useJourney } from './journey.ts';

const members = ['hearth-main-etcd-0', 'hearth-main-etcd-1', 'hearth-main-etcd-2'];

describe('a store of three members', function () {
  this.timeout(240_000);
  const journey = useJourney('store');
  const bytes = bytesOf(91, 6 * MiB);
  let origin: FileOrigin;

  before(async () => {
    origin = await FileOrigin.start(journey().cluster.network.hostAddress);
    await journey().apply(journey().dataset('model', { http: { urls: [origin.add('weights', bytes)] } }));
    await journey().ready('dataset/model');
    await journey().apply(journey().reader('warmer', inline('model'), { command: 'cat /models/weights > /dev/null' }));
    await journey().finished('warmer');
    await until('all of it is there', complete);
    // Its volume is the cache's files, which need no agent, no holder and no StorageCluster.
    await journey().apply(journey().reader('reader', inline('model')));
    await journey().ready('pod/reader');
    await readsRight('reader');
  });
  after(() => origin?.[Symbol.asyncDispose]());

  const inSystem = (...args: string[]) => ok(journey().cluster.kubectl(['-n', releaseNamespace, ...args]));
  const complete = async () => {
    const status = (await journey().get('dataset', 'model'))?.status;
    return status?.nodes === 1 && status.percent === 100;
  };
  async function readsRight(name: string): Promise<void> {
    const sum = await ok(journey().inPod(name, 'sha256sum /models/weights'));
    assert.equal(sum.slice(0, 64), sha256(bytes));
  }
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
    await until('three members are ready', ready, 120_000).catch(async (error) => {
      throw new Error(`${error.message}: ${JSON.stringify((await etcdPods()).map(({ status }) => status))}`);
    });
    await journey().ready(`storagecluster/${clusterName}`, 120);
  }
  /** The store knows the Dataset, and volumes can be made from it. */
  async function servesNewPods(name: string): Promise<void> {
    await journey().ready('dataset/model', 120);
    await until('its bytes are known again', complete, 60_000);
    await journey().apply(journey().reader(name, inline('model')));
    await journey().ready(`pod/${name}`, 90);
    await readsRight(name);
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
    const sent = origin.sentBytes;
    await journey().must('delete', 'storagecluster', clusterName, '--timeout=120s');
    await readsRight('reader');
    const object = journey().storageCluster;
    object.spec.store.etcd.replicas = 3;
    await journey().apply(object);
    await allReady();
    await readsRight('reader');
    await servesNewPods('first');
    assert.ok(origin.sentBytes - sent < MiB, `${origin.sentBytes - sent} bytes were asked for again`);
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

  it('begins anew when one has lost its data, and pods read meanwhile', async () => {
    const before = await uids();
    await inSystem('delete', 'pod', members[1] as string);
    await until(
      'all of them are others',
      async () => {
        await readsRight('reader');
        const now = await uids();
        return now.length === 3 && now.every((uid) => !before.includes(uid));
      },
      120_000,
    );
    await allReady();
    const events = await ok(journey().cluster.kubectl(['events', '--for', `storagecluster/${clusterName}`]));
    assert.match(events, /StoreRebuilt .*Give the store volumes/);
    await servesNewPods('second');
  });

  it('begins anew when all are lost at once', async () => {
    const before = await uids();
    await inSystem('delete', 'pods', ...members);
    await readsRight('reader');
    await until(
      'all of them are others',
      async () => {
        const now = await uids();
        return now.length === 3 && now.every((uid) => !before.includes(uid));
      },
      120_000,
    );
    await allReady();
    await servesNewPods('third');
    await journey().remove('pod/reader');
  });
});
