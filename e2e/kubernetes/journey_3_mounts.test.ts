import assert from 'node:assert/strict';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import type { ClusterNode } from '../cluster/node.ts';
import { clusterName, inline, useJourney } from './journey.ts';

describe('pods whose mounts die, because the agent and the holder of their node are killed at once', () => {
  const journey = useJourney('mounts');
  const bytes = bytesOf(35, 9 * MiB);
  const digest = sha256(bytes);
  const pods = ['stale', 'sees', 'too', 'probed'];
  let node: ClusterNode;

  before(() => {
    node = journey().cluster.nodes[0] as ClusterNode;
  });

  it('are read again by new pods and by those that see new mounts; the others are named, and nothing stays', async () => {
    await journey().apply(journey().dataset('lost', { http: { urls: [journey().origin.add('weights', bytes)] } }));
    await journey().ready('dataset/lost');
    await journey().apply(
      ...[journey().reader('stale', inline('lost')), seeingNewMounts('sees'), seeingNewMounts('too'), probed('probed')],
    );
    for (const pod of pods) await journey().ready(`pod/${pod}`);
    assert.equal(fuseMounts(await mounts(), 'kubernetes.io~csi').length, 4, 'they were made before the bytes came');
    for (const pod of pods) assert.equal(await sum(pod), digest, pod);

    await killAgentAndHolder();
    const said = await until('the StorageCluster does not call the mounts alive', async () => {
      const condition = await volumes();
      return condition?.status !== 'True' && condition;
    });
    assert.notEqual(said.reason, 'Alive');
    await until('the mount is dead', async () => /not connected/.test((await reading('stale')).stderr));
    for (const pod of ['sees', 'too']) {
      await until(`${pod} sees new mounts and reads again`, async () => (await reading(pod)).stdout.startsWith(digest));
    }
    await until('the container that fails its probe is started again, and reads', async () => {
      const [container] = (await journey().get('pod', 'probed'))?.status?.containerStatuses ?? [];
      return container?.restartCount > 0 && container.ready && (await reading('probed')).stdout.startsWith(digest);
    });
    await journey().event('stale', /VolumeRebound: .*lost its mount.* Restart the pod/);
    assert.match((await reading('stale')).stderr, /not connected/, 'as the event says');
    await journey().ready(`storagecluster/${clusterName}`);
    const named = await until('the StorageCluster names them', async () => {
      const condition = await volumes();
      return (
        /mounts\/probed, pod mounts\/sees, pod mounts\/stale and 1 more/.test(condition?.message ?? '') && condition
      );
    });
    assert.deepEqual([named.status, named.reason], ['False', 'Rebound']);

    await journey().remove('pod/sees');
    assert.equal(await sum('too'), digest, 'what another pod loses by its end is its own');
    // Restarted, as the event says; by another one there is nothing to be seen of what happened.
    await journey().remove('pod/stale', 'pod/too', 'pod/probed');
    await journey().apply(journey().reader('stale', inline('lost')));
    await journey().ready('pod/stale');
    assert.equal(await sum('stale'), digest);
    await until('no pod is named', async () => (await volumes())?.status === 'True');
    await journey().remove('pod/stale');
    await until('no pod has a mount', async () => fuseMounts(await mounts(), 'kubernetes.io~csi').length === 0);
    await journey().remove('dataset/lost');
    await until('nothing of it is mounted', async () => fuseMounts(await mounts(), '-mounts.lost').length === 0);
  });

  /** Ended by the kubelet as soon as it cannot read, and started again. */
  function probed(name: string) {
    const made = journey().reader(name, inline('lost'), { restartPolicy: 'Always' });
    made.spec.terminationGracePeriodSeconds = 1;
    made.spec.containers[0].livenessProbe = {
      exec: { command: ['sh', '-c', 'head -c 1 /models/weights'] },
      periodSeconds: 1,
      failureThreshold: 1,
    };
    return made;
  }
  function seeingNewMounts(name: string) {
    const made = journey().reader(name, inline('lost'));
    made.spec.containers[0].volumeMounts[0].mountPropagation = 'HostToContainer';
    return made;
  }
  const volumes = async () => {
    const { conditions } = (await journey().get('storagecluster', clusterName))?.status ?? {};
    return conditions?.find(({ type }: { type: string }) => type === 'Volumes');
  };
  const reading = (pod: string) => journey().inPod(pod, 'sha256sum /models/weights');
  const sum = async (pod: string) => (await ok(reading(pod))).slice(0, 64);
  const mounts = () => node.machine.must('cat', '/proc/self/mountinfo');
  const fuseMounts = (table: string, path: string) =>
    table.split('\n').filter((line) => line.includes(' - fuse') && line.includes(path));

  /** One call for both, so that neither sees the other gone. */
  async function killAgentAndHolder(): Promise<void> {
    const processes = (await node.machine.must('ps', '-e', '-o', 'pid=,args=')).split('\n');
    const pids = processes.flatMap((line) => {
      const [, pid, words] = /^ *(\d+) (.*)/.exec(line) ?? [];
      return pid && / agent --config |hearth-holder --socket /.test(words ?? '') ? [pid] : [];
    });
    assert.equal(pids.length, 2, processes.join('\n'));
    await node.machine.must('kill', '-KILL', ...pids);
  }
});
