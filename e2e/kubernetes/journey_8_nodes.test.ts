import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { hearthImage, hearthImageName } from '../cluster/images/hearth_image.ts';
import type { ClusterNode } from '../cluster/node.ts';
import { clusterName, inline, useJourney, waiting } from './journey.ts';

const taint = 'hearth.storage/agent-not-ready';

describe('nodes that fail', () => {
  const journey = useJourney('nodes');
  let node: ClusterNode;

  before(async () => {
    node = journey().cluster.nodes[1] as ClusterNode;
  });

  const inSystem = (...args: string[]) => ok(journey().cluster.kubectl(['-n', releaseNamespace, ...args]));

  /** Waits for an event of an object that is in no namespace. */
  const eventOf = (object: string, pattern: RegExp) =>
    until(`an event ${pattern} of ${object}`, async () =>
      pattern.test(await ok(journey().cluster.kubectl(['events', '--for', object]))),
    );

  /** The records of csi-node about the volumes of pods on the node, by pod. */
  function published(): string[] {
    const folder = join(node.machine.folder, 'lib/hearth/main/published');
    const records = readdirSync(folder).filter((name) => name.endsWith('.json'));
    return records.flatMap((name) => podOf(join(folder, name))).sort();
  }
  function podOf(record: string): string[] {
    try {
      return [JSON.parse(readFileSync(record, 'utf8')).pod.name as string];
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') throw thrown;
      return []; // it went after the folder was listed
    }
  }
  /** Mounts of Hearth's volumes in pods. */
  async function mounted(): Promise<string[]> {
    const lines = (await node.machine.must('cat', '/proc/self/mountinfo')).split('\n');
    return lines.filter((line) => line.includes('kubernetes.io~csi')).map((line) => line.split(' ')[4] as string);
  }

  it('reads again after a power cut, every byte and from its own disk', async () => {
    const whole = bytesOf(81, 7 * MiB);
    const part = bytesOf(82, 64 * MiB);
    const reading = (file: string) => `cat /models/${file} | head -c 65536 | sha256sum && ${waiting}`;
    const pod = (name: string, dataset: string) =>
      journey().reader(name, inline(dataset), { node: node.name, restartPolicy: 'Always', command: reading(dataset) });
    await journey().apply(
      journey().dataset('whole', { http: { urls: [journey().origin.add('whole', whole)] } }),
      journey().dataset('part', { http: { urls: [journey().origin.add('part', part)] } }),
    );
    for (const name of ['whole', 'part']) await journey().ready(`dataset/${name}`);
    await journey().apply(pod('first', 'whole'), pod('part', 'part'));
    for (const name of ['first', 'part']) await journey().ready(`pod/${name}`);
    const sum = async (name: string, file: string) =>
      (await ok(journey().inPod(name, `sha256sum /models/${file}`))).slice(0, 64);
    assert.equal(await sum('first', 'whole'), sha256(whole));
    await until('all of it is there', async () => (await journey().get('dataset', 'whole'))?.status.nodes === 1);
    await journey().apply(pod('view', 'whole'), pod('gone', 'whole'));
    for (const name of ['view', 'gone']) await journey().ready(`pod/${name}`);
    assert.deepEqual(published(), ['first', 'gone', 'part', 'view']);
    const sent = journey().origin.sentBytes;

    await node.cutPower();
    await journey().must('delete', 'pod', 'gone', '--force', '--grace-period=0');
    await node.boot();
    const restarted = (name: string) => async () => {
      const [container] = (await journey().get('pod', name))?.status.containerStatuses ?? [];
      return container?.restartCount > 0 && container.ready;
    };
    for (const name of ['first', 'view', 'part']) {
      await until(`pod ${name} runs again`, restarted(name)).catch(async (error) => {
        throw new Error(`${error.message}\n${await journey().events(name)}`);
      });
    }
    for (const name of ['first', 'view']) assert.equal(await sum(name, 'whole'), sha256(whole));
    const again = journey().origin.sentBytes - sent;
    assert.ok(again < 5 * MiB, `${again} bytes of what was on the disk were asked for again`);
    assert.equal(await sum('part', 'part'), sha256(part));
    await journey().ready(`storagecluster/${clusterName}`);
    await eventOf(`node/${node.name}`, /Rebooted/);

    await until('nothing is remembered of the pod that has gone', async () => {
      return published().join() === 'first,part,view' && (await mounted()).length === 3;
    });
    await journey().remove('pod/first', 'pod/view', 'pod/part');
    await until('nothing is mounted', async () => (await mounted()).length === 0 && published().length === 0);
  });

  it('lets pods start after the time that its agent has, and reports it', async () => {
    const object = journey().storageCluster;
    object.spec.startupTaint = { timeout: '10s' };
    await journey().apply(object);
    await ok(node.ctr(['images', 'rm', `docker.io/${hearthImageName}`]));
    try {
      const [agent] = await journey().partOn('agent', node);
      assert.ok(agent);
      await inSystem('delete', 'pod', agent.metadata.name);
      await until('the StorageCluster says why', async () => {
        const nodes = (await journey().get('storagecluster', clusterName))?.status.nodes;
        return nodes.some((one: { name: string; reason: string }) => {
          return one.name === node.name && one.reason === 'ImageNotPulled';
        });
      });
      await journey().reason('nodecache', node.name, 'NoAgent');
      const began = performance.now();
      await ok(journey().cluster.kubectl(['taint', 'node', node.name, `${taint}=:NoSchedule`]));
      await journey().apply(journey().reader('late', { emptyDir: {} }, { node: node.name }));
      const taints = async () => JSON.stringify((await journey().get('node', node.name))?.spec.taints ?? []);
      await until('the taint has gone', async () => !(await taints()).includes(taint));
      const seconds = (performance.now() - began) / 1000;
      assert.ok(seconds >= 9, `it stays as long as it should, not ${seconds} s`);
      await journey().ready('pod/late');
      for (const place of [`node/${node.name}`, `storagecluster/${clusterName}`]) {
        await eventOf(place, /AgentLate .*after 10s the agent is still not ready/);
      }
    } finally {
      await node.importImage((await hearthImage()).archive);
      await journey().apply(journey().storageCluster);
    }
    await journey().ready(`storagecluster/${clusterName}`);
    await journey().remove('pod/late');
  });
});
