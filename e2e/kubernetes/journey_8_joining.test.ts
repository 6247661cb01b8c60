import assert from 'node:assert/strict';
import { MiB, ok, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { hearthImage } from '../cluster/images/hearth_image.ts';
import type { ClusterNode } from '../cluster/node.ts';
import { clusterName } from './journey.ts';
import { onNode, usePreloadJourney, waiting } from './preload_journey.ts';

const startupTaint = { key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' };

describe('bytes and a node that joins', () => {
  const preloads = usePreloadJourney('joining');
  const journey = () => preloads().journey;

  let node: ClusterNode;
  let sent: number;
  const joined = { digest: '' };
  const policy = {
    name: 'late',
    nodeSelector: { pool: 'late' },
    datasets: [{ namespace: 'joining', name: 'joined' }],
  };
  const policies = (joinPolicies: object[]) => {
    const patch = JSON.stringify({ spec: { joinPolicies } });
    return journey().must('patch', 'storagecluster', clusterName, '--type=merge', '-p', patch);
  };
  before(async () => {
    const { manifest, digest } = preloads().model('joined', { lastCopy: 'Move' });
    joined.digest = digest;
    await journey().apply(manifest);
    await journey().ready('dataset/joined');
    await journey().apply(preloads().preload('seed', { ...onNode('joined', 'node1'), pin: false }));
    await journey().ready('cachepreload/seed');
    await policies([policy]);
    sent = preloads().origin.sentBytes;
    const { archive } = await hearthImage();
    node = await journey().cluster.addNode({ labels: { pool: 'late' }, taints: [startupTaint] }, [archive]);
  });
  after(async () => {
    if (node) await journey().cluster.removeNode();
    await policies([]);
  });

  it('come there before its pods do, from the other nodes', async () => {
    const { cluster } = journey();
    const taints = async () => ((await journey().get('node', node.name))?.spec.taints ?? []) as { key: string }[];
    const isFree = async () => !(await taints()).some(({ key }) => key === startupTaint.key);
    await until('the startup taint goes', isFree);
    await until('the Dataset tells of it', () => preloads().isComplete(node.name, 'joined'));
    assert.equal(preloads().origin.sentBytes, sent, 'the origin was asked, though a node had the bytes');
    const ofNode = ['--field-selector', `involvedObject.name=${node.name}`];
    await until('an event that says so', async () =>
      /holds joining\.joined/.test(await ok(cluster.kubectl(['get', 'events', '-A', ...ofNode]))),
    );
  });

  it('are brought to one of three nodes, on which their pod then starts', async () => {
    const { manifest, digest } = preloads().model('third', waiting());
    await journey().apply(manifest);
    await journey().ready('dataset/third');
    // The gate opens once the bytes are there, so they come slowly until the test has seen the gate.
    preloads().origin.bytesPerSecond = MiB / 8;
    await journey().apply(preloads().reader('third', 'third', digest, { spec: { nodeSelector: { pool: 'late' } } }));
    assert.ok(await preloads().isGated('third'), 'the API server admitted the pod without a gate');
    preloads().origin.bytesPerSecond = undefined;
    await preloads().released('third');
    const before = preloads().origin.sentBytes;
    assert.match(await journey().finished('third'), /OK/);
    assert.equal((await preloads().pod('third')).spec.nodeName, node.name);
    assert.equal(preloads().origin.sentBytes, before);
  });

  it('leave it before it goes', async () => {
    const { cluster } = journey();
    const before = preloads().origin.sentBytes;
    await journey().remove('cachepreload/seed');
    const [agent] = await journey().partOn('agent', cluster.nodes[0] as ClusterNode);
    const evict = ['hearth', 'evict', 'joining.joined', '--node', 'node1'];
    await ok(cluster.kubectl(['-n', releaseNamespace, 'exec', agent?.metadata.name as string, '--', ...evict]));
    await until('node1 has lost its copy', async () => !(await preloads().isComplete('node1', 'joined')));
    await ok(cluster.kubectl(['cordon', node.name]));
    await ok(cluster.kubectl(['wait', `nodecache/${node.name}`, '--for=condition=LastCopiesMoved', '--timeout=300s']));
    // The Dataset's figures are written a few seconds later.
    const elsewhere = async () =>
      (await preloads().isComplete('node1', 'joined')) || (await preloads().isComplete('node2', 'joined'));
    await until('another node has a copy', elsewhere);
    await ok(cluster.kubectl(['uncordon', node.name]));
    const selector = { 'kubernetes.io/hostname': (await preloads().isComplete('node1', 'joined')) ? 'node1' : 'node2' };
    await journey().apply(preloads().reader('after', 'joined', joined.digest, { spec: { nodeSelector: selector } }));
    assert.match(await journey().finished('after'), /OK/);
    assert.equal(preloads().origin.sentBytes, before, 'the last copy was not taken from the node that had it');
  });

  it('go to another node when the one that is warmed dies', async () => {
    const { manifest } = preloads().model('lost');
    await journey().apply(manifest);
    await journey().ready('dataset/lost');
    // The planner chooses a node that has some of the bytes.
    preloads().origin.bytesPerSecond = MiB / 8;
    await journey().apply(preloads().preload('begun', onNode('lost', node.name)));
    await until('the node has some of it', async () => ((await preloads().statusOf('begun'))?.bytesReady ?? 0) > 0);
    await journey().apply(preloads().preload('lost', { datasets: [{ name: 'lost' }], placement: { replicas: 1 } }));
    const chosen = async () =>
      (await preloads().statusOf('lost'))?.nodes?.map(({ name }: { name: string }) => name) ?? [];
    await until('it is chosen', async () => (await chosen()).includes(node.name));
    await node.cutPower();
    preloads().origin.bytesPerSecond = undefined;
    await journey().ready('cachepreload/lost');
    const ready = (await preloads().statusOf('lost')).nodes.filter(({ phase }: { phase: string }) => phase === 'Ready');
    assert.ok(ready.length === 1 && ready[0].name !== node.name, JSON.stringify(ready));
    await journey().remove('cachepreload/lost', 'cachepreload/begun');
  });
});
