import assert from 'node:assert/strict';
import { bytesOf, MiB, ok, sha256, until } from '@hearth/common/testing';
import type { Manifest } from '@hearth/common/testing/kubernetes';
import { clusterName, driver, inline, ofClaim, useJourney, verifying } from './journey.ts';

const label = 'hearth';
const agentKey = 'csi.hearth.storage/agent';
const clusterKey = `cluster.csi.hearth.storage/${clusterName}`;

describe('A StorageCluster on some nodes', () => {
  const journey = useJourney('topology');
  let nodeGroups: Manifest['spec']['nodeGroups'];

  const onNodes = (...args: string[]) => ok(journey().cluster.kubectl(args));
  const select = async (groups: object[]) => {
    const patch = JSON.stringify({ spec: { nodeGroups: groups } });
    await onNodes('patch', 'storagecluster', clusterName, '--type=merge', '-p', patch);
  };
  const labelsOf = async (node: string): Promise<Record<string, string>> =>
    (await journey().get('node', node))?.metadata.labels ?? {};
  const isTopologyNode = async (node: string) => {
    const labels = await labelsOf(node);
    assert.equal(labels[agentKey], labels[clusterKey]);
    return labels[clusterKey] === 'true';
  };

  before(async () => {
    nodeGroups = (await journey().get('storagecluster', clusterName))?.spec.nodeGroups;
    await onNodes('label', 'node', 'node1', `${label}=yes`, '--overwrite');
  });
  after(async () => {
    await select(nodeGroups);
    await onNodes('label', 'node', 'node1', 'node2', `${label}-`);
    await journey().ready(`storagecluster/${clusterName}`);
  });

  it('labels the nodes that it selects, and csi-node gives the labels as its topology', async () => {
    await journey().apply(journey().dataset('model', { selfTest: {} }), journey().claim('model'));
    for (const node of ['node1', 'node2']) {
      await until(`the labels of ${node}`, () => isTopologyNode(node));
      await until(`the topology of ${node}`, async () => {
        const drivers: { name: string; topologyKeys?: string[] }[] =
          (await journey().get('csinode', node))?.spec.drivers ?? [];
        const keys = drivers.find(({ name }) => name === driver)?.topologyKeys ?? [];
        return keys.includes(clusterKey) && keys.includes(agentKey);
      });
    }
    await select([{ ...nodeGroups[0], nodeSelector: { [label]: 'yes' } }]);
    await until('node2 has no label', async () => !(await isTopologyNode('node2')));
    assert.ok(await isTopologyNode('node1'));
  });

  it('has pods with a claim run where its agents are, and wait where they are not', async () => {
    const command = verifying;
    const { spec, ...somewhere } = journey().reader('somewhere', ofClaim('model'), { command });
    await journey().apply(
      { ...somewhere, spec: { ...spec, nodeSelector: undefined } },
      journey().reader('claimed', ofClaim('model'), { command, node: 'node2' }),
    );
    await journey().finished('somewhere');
    assert.equal((await journey().get('pod', 'somewhere'))?.spec.nodeName, 'node1');
    await journey().event('claimed', /FailedScheduling: .*node affinity/);
    assert.equal((await journey().get('pod', 'claimed'))?.spec.nodeName, undefined);
  });

  it('tells a pod with an inline volume elsewhere which label the node lacks', async () => {
    await until('no agent is on node2', async () => {
      const [node] = journey().cluster.nodes.filter(({ name }) => name === 'node2');
      return node !== undefined && (await journey().partOn('agent', node)).length === 0;
    });
    await journey().apply(journey().reader('stranded', inline('model'), { command: verifying, node: 'node2' }));
    const lacks = new RegExp(
      `no agent of a StorageCluster runs on node node2.*StorageCluster ${clusterName}: kubectl label node node2 ${label}=yes`,
    );
    await journey().event('stranded', lacks);
  });

  it('takes the node once it has the label, and both pods run', async () => {
    await onNodes('label', 'node', 'node2', `${label}=yes`);
    await until('the labels of node2', () => isTopologyNode('node2'));
    for (const pod of ['claimed', 'stranded']) {
      await journey().finished(pod);
      assert.equal((await journey().get('pod', pod))?.spec.nodeName, 'node2');
    }
    await journey().remove('pod/somewhere', 'pod/claimed', 'pod/stranded', 'persistentvolumeclaim/model');
  });

  it('keeps the agent of a node that has lost the label until no pod reads by it, and names the pods', async () => {
    const weights = bytesOf(47, 24 * MiB);
    await journey().apply(
      journey().dataset('kept', { http: { urls: [journey().origin.add('kept', weights)] } }),
      journey().watcher('reads', inline('kept'), 'kept', sha256(weights), { node: 'node2' }),
    );
    await journey().ready('pod/reads');
    await onNodes('label', 'node', 'node2', `${label}-`);
    await until('node2 takes no new volume', async () => !(await isTopologyNode('node2')));
    const released = async () => {
      const { conditions = [] } = (await journey().get('storagecluster', clusterName))?.status ?? {};
      return conditions.find(({ type }: { type: string }) => type === 'NodesReleased');
    };
    await until('the StorageCluster names the pod', async () =>
      /mount volumes there: topology\/reads on node2; delete these pods/.test((await released())?.message ?? ''),
    );
    const events = ['get', 'events', '-A', '--field-selector', `involvedObject.name=${clusterName},reason=NodeInUse`];
    await until('its event', async () =>
      /Node node2 has left node group .*topology\/reads/.test(await onNodes(...events)),
    );
    await journey().ready(`storagecluster/${clusterName}`);
    const before = await journey().rounds('reads');
    await until('the pod reads on', async () => (await journey().rounds('reads')) > before + 3);
    await journey().remove('pod/reads');
    const [node] = journey().cluster.nodes.filter(({ name }) => name === 'node2');
    assert.ok(node);
    for (const part of ['agent', 'holder']) {
      await until(`no ${part} is on node2`, async () => (await journey().partOn(part, node)).length === 0);
    }
    await until('nothing is kept', async () => (await released())?.status === 'True');
  });
});
