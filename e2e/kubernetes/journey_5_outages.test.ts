import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { ok } from '../cluster/testing/ok.ts';
import { until } from '../src/command.ts';
import { bytesOf, MiB, sha256 } from '../src/sample.ts';
import { type Manifest, releaseNamespace } from './chart.ts';
import { FileOrigin } from './file_origin.ts';
import { clusterName, inline, useJourney } from './journey.ts';

describe('what goes on when a part is away', function () {
  this.timeout(240_000);
  const journey = useJourney('outages');
  const bytes = bytesOf(51, 6 * MiB);
  let origin: FileOrigin;

  before(async () => {
    origin = await FileOrigin.start(journey().cluster.network.hostAddress);
    await journey().apply(journey().dataset('model', { http: { urls: [origin.add('weights', bytes)] } }));
    await journey().apply(reader('reader'));
    await journey().ready('pod/reader');
    await readsRight('reader');
    await until('all of it is there', complete);
  });
  after(() => origin?.[Symbol.asyncDispose]());

  const reader = (name: string) => journey().reader(name, inline('model'));
  const complete = async () => {
    const status = (await journey().get('dataset', 'model'))?.status;
    return status?.nodes === 1 && status.percent === 100;
  };
  async function readsRight(name: string): Promise<void> {
    const sum = await ok(journey().inPod(name, 'sha256sum /models/weights'));
    assert.equal(sum.slice(0, 64), sha256(bytes));
  }
  const inSystem = (...args: string[]) => ok(journey().cluster.kubectl(['-n', releaseNamespace, ...args]));

  it('builds the store anew when its data are lost, without asking origins for bytes', async () => {
    const sent = origin.sentBytes;
    const [pod] = JSON.parse(
      await inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=etcd', '-o', 'json'),
    ).items;
    await inSystem('delete', 'pod', pod.metadata.name);
    await readsRight('reader');
    await until('the store of before is away', async () => {
      const [now] = JSON.parse(await inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=etcd', '-o', 'json'))
        .items as Manifest[];
      return now && (now.metadata as { uid?: string }).uid !== pod.metadata.uid;
    });
    await journey().ready(`storagecluster/${clusterName}`, 120);
    await journey().ready('dataset/model', 120);
    await until('its bytes are known again', complete, 60_000);
    await journey().apply(reader('later'));
    await journey().ready('pod/later', 90);
    await readsRight('later');
    // One byte is read to see whether the credentials can.
    assert.ok(origin.sentBytes - sent < MiB, `${origin.sentBytes - sent} bytes were asked for again`);
  });

  it('rewrites nothing when the operator is restarted', async () => {
    const kinds = 'storageclusters,datasets,daemonsets,statefulsets,configmaps,services,secrets';
    const versions = async () => {
      const { items } = JSON.parse(await ok(journey().cluster.kubectl(['get', kinds, '-A', '-o', 'json'])));
      return (items as Manifest[])
        .filter((one) => JSON.stringify(one.metadata).includes('hearth'))
        .map(
          ({ kind, metadata }) =>
            `${kind} ${metadata.name} ${(metadata as { resourceVersion?: string }).resourceVersion}`,
        );
    };
    // What the test before has changed is still being told.
    let before = await versions();
    await until(
      'quiet',
      async () => {
        await sleep(8000);
        const last = before;
        before = await versions();
        return last.join() === before.join();
      },
      90_000,
    );
    assert.ok(before.length > 10, before.join());
    await inSystem('delete', 'pods', '-l', 'app.kubernetes.io/component=operator');
    await inSystem('rollout', 'status', 'deployment/hearth-operator', '--timeout=90s');
    const holder = async () => inSystem('get', 'lease', 'hearth-operator', '-o', 'jsonpath={.spec.holderIdentity}');
    const pods = async () => inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=operator', '-o', 'name');
    await until(
      'one of the new ones leads',
      async () => (await pods()).includes((await holder()).split('_')[0] ?? '-'),
      60_000,
    );
    await sleep(10_000);
    assert.deepEqual(await versions(), before);
  });

  it('keeps pods reading while the API server is away, and catches up', async () => {
    const { plane, nodes } = journey().cluster;
    const restarts = () =>
      inSystem('get', 'pods', '-o', 'jsonpath={.items[*].status.containerStatuses[*].restartCount}');
    const before = await restarts();
    const [machine] = nodes.map((node) => node.machine);
    const views = await machine?.must(
      'sh',
      '-c',
      'ls -d /var/lib/kubelet/pods/*/volumes/kubernetes.io~csi/models/mount',
    );
    await plane.stopProgram('kube-apiserver');
    try {
      await sleep(45_000);
      for (const view of views?.trim().split('\n') ?? []) {
        assert.equal((await machine?.must('sha256sum', `${view}/weights`))?.slice(0, 64), sha256(bytes));
      }
    } finally {
      await plane.startProgram('kube-apiserver');
      await plane.ready();
    }
    await until('the API server answers', async () => (await journey().kubectl(['get', 'datasets'])).code === 0);
    await journey().apply(journey().dataset('after', { selfTest: {} }));
    await journey().ready('dataset/after', 90);
    await readsRight('reader');
    assert.equal(await restarts(), before, 'nothing ended');
    await journey().remove('pod/reader', 'pod/later');
  });
});
