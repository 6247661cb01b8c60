import assert from 'node:assert/strict';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import type { ClusterNode } from '../cluster/node.ts';
import { clusterName, inline, useJourney } from './journey.ts';

/** Of each answer, several of which come side by side, bytes a second: a pod that reads all is still seen to run. */
const slowly = MiB / 4;

describe('pods that read while parts of Hearth go away', () => {
  const journey = useJourney('agents');
  let node: ClusterNode;

  before(() => {
    node = journey().cluster.nodes[0] as ClusterNode;
  });

  const part = async (component: string) => {
    const [pod] = await journey().partOn(component, node);
    assert.ok(pod, `${component} on ${node.name}`);
    return pod.metadata as { name: string; uid: string };
  };
  const deletePods = (...names: string[]) =>
    ok(journey().cluster.kubectl(['-n', releaseNamespace, 'delete', 'pod', ...names], { timeoutMs: 330_000 }));

  it('lets a read go on when the agent of its node is deleted, and every byte is right', async () => {
    const bytes = bytesOf(31, 48 * MiB);
    journey().origin.bytesPerSecond = slowly;
    const source = { http: { urls: [journey().origin.add('weights', bytes)] } };
    await journey().apply(journey().dataset('slow', source));
    await journey().ready('dataset/slow');
    const [holder, agent] = [await part('holder'), await part('agent')];
    const sent = journey().origin.sentBytes;
    await journey().apply(journey().reader('slow', inline('slow'), { command: 'sha256sum /models/weights' }));
    await until('the pod reads', async () => (await journey().get('pod', 'slow'))?.status.phase === 'Running');
    await until('its bytes come', () => journey().origin.sentBytes > sent + MiB);
    assert.equal((await journey().get('pod', 'slow'))?.status.phase, 'Running', 'it still reads');
    await deletePods(agent.name);
    journey().origin.bytesPerSecond = undefined;
    assert.equal((await journey().finished('slow')).slice(0, 64), sha256(bytes));
    await journey().ready(`storagecluster/${clusterName}`);
    assert.notEqual((await part('agent')).uid, agent.uid);
    assert.equal((await part('holder')).uid, holder.uid, 'the holder stays');
  });

  it('lets a read go on when the holder of its node is deleted, as the end of an upgrade is, and leaves the agent', async () => {
    const bytes = bytesOf(33, 48 * MiB);
    journey().origin.bytesPerSecond = slowly;
    const watched = bytesOf(34, MiB);
    await journey().apply(
      journey().dataset('held', { http: { urls: [journey().origin.add('held', bytes)] } }),
      journey().dataset('watched', { http: { urls: [journey().origin.add('watched', watched)] } }),
    );
    for (const name of ['held', 'watched']) await journey().ready(`dataset/${name}`);
    const [holder, agent] = [await part('holder'), await part('agent')];
    await journey().apply(journey().reader('held', inline('held'), { command: 'sha256sum /models/held' }));
    await journey().apply(journey().watcher('watcher', inline('watched'), 'watched', sha256(watched)));
    await journey().ready('pod/watcher');
    await until('the pod reads', async () => (await journey().get('pod', 'held'))?.status.phase === 'Running');
    await deletePods(holder.name);
    const next = await until('the next holder', async () => {
      const pods = await journey().partOn('holder', node);
      return pods.find(({ metadata }) => (metadata as { uid?: string }).uid !== holder.uid);
    });
    const rounds = await journey().rounds('watcher');
    await until('a mount of before is read on', async () => (await journey().rounds('watcher')) > rounds + 3);
    await journey().ready(`pod/${next.metadata.name}`, releaseNamespace);
    journey().origin.bytesPerSecond = undefined;
    assert.equal((await journey().finished('held')).slice(0, 64), sha256(bytes));
    assert.equal((await part('agent')).uid, agent.uid, 'the agent stays');
    await journey().apply(journey().reader('next', inline('watched'), { command: 'sha256sum /models/watched' }));
    assert.equal((await journey().finished('next')).slice(0, 64), sha256(watched), 'new mounts are made');
    await journey().remove('pod/held', 'pod/watcher', 'pod/next');
  });

  it('reads complete files and ends pods while no agent runs, and reports to new pods why they wait', async () => {
    const complete = bytesOf(32, 5 * MiB);
    await journey().apply(
      journey().dataset('complete', { http: { urls: [journey().origin.add('complete', complete)] } }),
    );
    await journey().ready('dataset/complete');
    const sum = async (pod: string) => (await ok(journey().inPod(pod, 'sha256sum /models/complete'))).slice(0, 64);
    await journey().apply(journey().reader('fuse', inline('complete')));
    await journey().ready('pod/fuse');
    assert.equal(await sum('fuse'), sha256(complete));
    await until('all of it is there', async () => (await journey().get('dataset', 'complete'))?.status.nodes === 1);
    await journey().apply(journey().reader('view', inline('complete')));
    await journey().ready('pod/view');

    await keepAway(true);
    try {
      await until('no agent on the node', async () => (await journey().partOn('agent', node)).length === 0);
      assert.equal(await sum('view'), sha256(complete));
      await journey().remove('pod/view', 'pod/fuse');
      await until('no pod has a mount', async () => {
        return !(await node.machine.must('cat', '/proc/self/mountinfo')).includes('kubernetes.io~csi');
      });
      await journey().apply(journey().reader('later', inline('complete')));
      await journey().event('later', /agent of (a )?StorageCluster .* on node node1/);
    } finally {
      await keepAway(false);
    }
    await journey().ready('pod/later');
    assert.equal(await sum('later'), sha256(complete));
    await journey().remove('pod/later', 'pod/slow');
  });

  /** Keeps agents off the node as an administrator would: by a selector that excludes the node, and then by force. */
  async function keepAway(away: boolean): Promise<void> {
    const object = journey().storageCluster;
    if (away) object.spec.nodeGroups[0].nodeSelector = { 'kubernetes.io/hostname': 'node2' };
    await journey().apply(object);
    if (!away) return;
    const labels = async () => (await journey().get('node', node.name))?.metadata.labels ?? {};
    const agents = `agents.hearth.storage/${clusterName}`;
    await until('the node takes no new volume', async () => !('csi.hearth.storage/agent' in (await labels())));
    assert.ok(agents in (await labels()), 'the agent stays for the pods that are there');
    // As the event says to those who want it to go all the same.
    await ok(journey().cluster.kubectl(['label', 'node', node.name, `${agents}-`]));
  }
});
