import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { elapse, MiB, ok, steady, until } from '@hearth/common/testing';
import { type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { clusterName, inline, useJourney, verifying } from './journey.ts';
import { JourneyModel } from './journey_model.ts';

/** How long the API server is away. */
const outageSeconds = Number(process.env.HEARTH_E2E_OUTAGE_SECONDS || 45);

/**
 * An object with who has last written it when. Of what has a status the resource version says nothing: that of a
 * DaemonSet is written by another, and turns back, when a probe of a pod takes long.
 */
function asWritten({ status, metadata: { resourceVersion, managedFields, ...metadata }, ...object }: Manifest): object {
  if (status === undefined) return { ...object, metadata, resourceVersion };
  const writes = managedFields?.filter(({ subresource }) => subresource !== 'status');
  return { ...object, metadata, status, writes };
}

describe('what goes on when a part is away', () => {
  const journey = useJourney('outages');
  let model: JourneyModel;

  before(async () => {
    model = await JourneyModel.start(journey(), 51);
    await journey().apply(model.reader('reader'));
    await journey().ready('pod/reader');
    await model.readsRight('reader');
    await model.cached('all of it is there');
  });

  const inSystem = (...args: string[]) => ok(journey().cluster.kubectl(['-n', releaseNamespace, ...args]));

  it('builds the store again when its data are lost, without asking origins for bytes', async () => {
    const sent = journey().origin.sentBytes;
    const [pod] = JSON.parse(
      await inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=etcd', '-o', 'json'),
    ).items;
    await inSystem('delete', 'pod', pod.metadata.name);
    await model.readsRight('reader');
    await until('the store of before is away', async () => {
      const [now] = JSON.parse(await inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=etcd', '-o', 'json'))
        .items as Manifest[];
      return now && (now.metadata as { uid?: string }).uid !== pod.metadata.uid;
    });
    await journey().ready(`storagecluster/${clusterName}`);
    await journey().ready('dataset/model');
    await model.cached('its bytes are known again');
    await journey().apply(model.reader('later'));
    await journey().ready('pod/later');
    await model.readsRight('later');
    // One byte is read to see whether the credentials can.
    assert.ok(
      journey().origin.sentBytes - sent < MiB,
      `${journey().origin.sentBytes - sent} bytes were asked for again`,
    );
  });

  it('rewrites nothing when the operator is restarted', async () => {
    const kinds = 'storageclusters,datasets,daemonsets,statefulsets,configmaps,services,secrets';
    /** Everything of Hearth as it is, by its name. */
    const objects = async () => {
      const words = ['get', kinds, '-A', '-o', 'json', '--show-managed-fields'];
      const { items } = JSON.parse(await ok(journey().cluster.kubectl(words)));
      const ours = (items as Manifest[]).filter((one) => JSON.stringify(one.metadata).includes('hearth'));
      return Object.fromEntries(ours.map((one) => [`${one.kind} ${one.metadata.name}`, asWritten(one)]));
    };
    // The agent that leads looks at the store once a minute, which ends the last condition that nobody has judged.
    await until('all conditions are judged', async () => {
      const { conditions = [] } = (await journey().get('storagecluster', clusterName))?.status ?? {};
      return conditions.length > 0 && conditions.every(({ status }: { status: string }) => status !== 'Unknown');
    });
    // Agents still report the changes of the test before, figures every ten seconds.
    const before = await steady('what is written', 15_000, objects);
    assert.ok(Object.keys(before).length > 10, Object.keys(before).join());
    await inSystem('delete', 'pods', '-l', 'app.kubernetes.io/component=operator');
    await inSystem('rollout', 'status', 'deployment/hearth-operator', '--timeout=300s');
    const holder = async () => inSystem('get', 'lease', 'hearth-operator', '-o', 'jsonpath={.spec.holderIdentity}');
    const pods = async () => inSystem('get', 'pods', '-l', 'app.kubernetes.io/component=operator', '-o', 'name');
    await until('one of the new ones leads', async () =>
      (await pods()).includes((await holder()).split('_')[0] ?? '-'),
    );
    await elapse(10_000, 'it would write');
    assert.deepEqual(await objects(), before);
  });

  it(`keeps pods reading for ${outageSeconds} s without an API server, lets them end, and catches up`, async function () {
    this.timeout((outageSeconds + 600) * 1000);
    const { plane, nodes } = journey().cluster;
    const [machine] = nodes.map((node) => node.machine);
    const leaving = model.reader('leaving');
    leaving.spec.terminationGracePeriodSeconds = 5;
    await journey().apply(model.watcher('watcher'), leaving);
    for (const name of ['watcher', 'leaving']) await journey().ready(`pod/${name}`);
    const uid = await journey().must('get', 'pod', 'leaving', '-o', 'jsonpath={.metadata.uid}');
    const mounts = async (pod = '') => {
      const lines = ((await machine?.must('cat', '/proc/self/mountinfo')) ?? '').split('\n');
      return lines.filter((line) => line.includes(`/pods/${pod}`) && line.includes('kubernetes.io~csi')).length;
    };
    const containers = '{.items[*].status.containerStatuses[*].containerID}';
    const running = async () => (await inSystem('get', 'pods', '-o', `jsonpath=${containers}`)).split(' ').sort();
    const before = await running();
    const mounted = await mounts();
    assert.equal(await mounts(uid), 1);
    const rounds = await journey().rounds('watcher');
    /** As its node sees it, while there is no API server to ask. */
    const roundsOnNode = async () => {
      const processes = ((await machine?.must('ps', '-e', '-o', 'pid=,args=')) ?? '').split('\n');
      const pid = processes
        .find((line) => line.includes('/tmp/rounds'))
        ?.trim()
        .split(' ')[0];
      return Number(await machine?.must('cat', `/proc/${pid}/root/tmp/rounds`));
    };

    await journey().must('delete', 'pod', 'leaving', '--wait=false');
    await plane.stopProgram('kube-apiserver');
    const end = performance.now() + outageSeconds * 1000;
    try {
      await until('the volume of the pod that ended is unmounted', async () => (await mounts(uid)) === 0);
      assert.equal(await mounts(), mounted - 1, 'no other is');
      const begun = await until('a round', roundsOnNode);
      while (performance.now() < end) {
        // The bytes come from the disk, by the paths that Hearth made.
        writeFileSync('/proc/sys/vm/drop_caches', '1');
        await elapse(Math.min(1000, Math.max(1, end - performance.now())), 'the pod reads');
      }
      await until('the pod reads on', async () => (await roundsOnNode()) > begun + 3);
    } finally {
      await plane.startProgram('kube-apiserver');
      await plane.ready();
    }
    await until('the API server answers', async () => (await journey().kubectl(['get', 'datasets'])).code === 0);
    const read =
      (await until('the pod answers', () =>
        journey()
          .rounds('watcher')
          .catch(() => undefined),
      )) - rounds;
    console.log(`      the pod read ${read} times meanwhile`);
    await journey().apply(journey().dataset('after', { selfTest: {} }));
    await journey().ready('dataset/after');
    // Past the scheduler, to which nodes look lost for a minute.
    const after = journey().reader('after', inline('after'), { command: verifying });
    await journey().apply({ ...after, spec: { ...after.spec, nodeSelector: undefined, nodeName: 'node1' } });
    await journey().finished('after');
    await until('the pod that ended has gone', async () => (await journey().get('pod', 'leaving')) === undefined);
    await journey().ready(`storagecluster/${clusterName}`);
    assert.deepEqual(await running(), before, 'no process of Hearth has ended');
    assert.ok((await journey().rounds('watcher')) > rounds);
    await journey().remove('pod/reader', 'pod/later', 'pod/watcher');
  });
});
