import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { HearthError, silentLogger } from '@hearth/common';
import { TemporaryFolder, until } from '@hearth/common/testing';
import { FakeAgent } from '../testing/fake_agent.ts';
import { published } from '../testing/samples.ts';
import { NodeAgents, NodeGroups } from './index.ts';

const refused = 'FAILED_PRECONDITION';

describe('NodeAgents', () => {
  let folder: TemporaryFolder;
  let agents: NodeAgents;
  const started: FakeAgent[] = [];
  beforeEach(() => {
    folder = new TemporaryFolder('csi');
    agents = new NodeAgents({ stateDirectory: folder.path, node: 'n1', deadlineMs: 300_000 });
  });
  afterEach(async () => {
    for (const agent of started.splice(0)) agent.stop();
    await folder.remove();
  });

  const start = async (cluster: string): Promise<FakeAgent> => {
    const agent = new FakeAgent(folder.path, cluster);
    started.push(agent);
    await agent.start();
    return agent;
  };
  const publish = async (signal = new AbortController().signal, by = agents) => {
    const { control } = await by.find('c');
    return await control.call('publishVolume', { dataset: 'team.model', manifest: '', mapsIds: false }, { signal });
  };

  it('finds the agent of a cluster, or the only one', async () => {
    const agent = await start('c');
    writeFileSync(folder.file('stray'), '');
    mkdirSync(folder.file('left-over'));
    agent.publish = () => published('/p');
    for (const name of ['c', undefined]) {
      const { cluster, directory } = await agents.find(name);
      assert.deepEqual([cluster, directory], ['c', folder.file('c')]);
    }
    assert.deepEqual(await publish(), published('/p'));
    assert.deepEqual(agent.requests, [{ dataset: 'team.model', manifest: '', mapsIds: false }]);
  });

  it('lists the clusters when it is not clear which is meant', async () => {
    await assert.rejects(agents.find(undefined), {
      status: refused,
      message: /^no agent of a StorageCluster runs on node n1; check/,
    });
    mkdirSync(folder.file('former'));
    await assert.rejects(agents.find(undefined), { status: refused, message: /of former only folders are left/ });
    await start('one');
    const other = await start('two');
    // Its holder is still there, so this must not become "the only one".
    mkdirSync(folder.file('two/run'), { recursive: true });
    writeFileSync(folder.file('two/run/holder.sock'), '');
    other.stop();
    await assert.rejects(agents.find(undefined), {
      status: refused,
      message: 'node n1 is in several StorageClusters (one, two); name one of them by the attribute cluster',
    });
  });

  it('names the cluster, the node and what to do when the agent is down', async () => {
    const message =
      /^the agent of StorageCluster c does not run on node n1 \((ENOENT|ECONNREFUSED) at .*\/c\/run\/agent\.sock\); .*kubectl get pods -A -l hearth\.storage\/cluster=c --field-selector spec\.nodeName=n1$/;
    await assert.rejects(agents.find('c'), { status: refused, message });
    const agent = await start('c');
    agent.stop();
    await assert.rejects(agents.find('c'), { status: refused, message });
    writeFileSync(agent.socket, '');
    await assert.rejects(agents.find('c'), { status: refused, message });
  });

  it('says which label the node lacks when the operator has written that', async () => {
    const path = folder.file('node-groups.json');
    const groups = new NodeGroups({ path, node: 'n1', logger: silentLogger });
    const informed = new NodeAgents({
      stateDirectory: folder.file('state'),
      node: 'n1',
      deadlineMs: 1000,
      selection: (cluster) => groups.selection(cluster),
    });
    const refusal = async (cluster?: string) => {
      const thrown = await informed.find(cluster).catch((error: HearthError) => error);
      assert.ok(thrown instanceof HearthError);
      return thrown.message;
    };
    assert.match(await refusal(), /check that a node group of one selects this node/);
    writeFileSync(path, '{}');
    assert.match(
      await refusal(),
      /^no agent of a StorageCluster runs on node n1; there is no StorageCluster: create one/,
    );
    const gpu = { name: 'gpu', selector: 'gpu=h200,hearth=yes' };
    writeFileSync(
      path,
      JSON.stringify({ main: [gpu], other: [{ name: 'all', selector: '', further: 'label zone In (a)' }] }),
    );
    const lacks =
      /on nodes with gpu=h200,hearth=yes \(node group gpu of StorageCluster main: kubectl label node n1 gpu=h200 hearth=yes\)/;
    assert.match(await refusal(), lacks);
    assert.match(
      await refusal(),
      /or on every Linux node with label zone In \(a\) \(node group all of StorageCluster other\)/,
    );
    assert.match(await refusal('main'), lacks);
    assert.doesNotMatch(await refusal('main'), /node group all/);
    assert.match(
      await refusal('absent'),
      /there is no StorageCluster absent \(there is main, other\): correct the attr/,
    );
    const groupsOfMain = [1, 2, 3, 4, 5].map((n) => ({ name: `g${n}`, selector: `g=${n}` }));
    writeFileSync(path, JSON.stringify({ main: groupsOfMain }));
    assert.match(await refusal(), /g=3 \(.*\) or one of 2 more node groups; if the node is one of these, wait/);
    writeFileSync(path, '{"main":"of another release"}');
    assert.match(await refusal('main'), /check that one of its node groups selects this node/);
  });

  it('refuses names that would lead elsewhere', async () => {
    for (const name of ['../x', 'a/b', '..', ''])
      await assert.rejects(agents.find(name), { status: 'INVALID_ARGUMENT' });
    await assert.rejects(agents.find('x'.repeat(120)), { status: refused, message: /longer than 107 bytes/ });
  });

  it('passes on what the agent says', async () => {
    const agent = await start('c');
    agent.publish = () => {
      throw new HearthError('OutOfSpace', 'the budget is used up');
    };
    await assert.rejects(publish(), { code: 'OutOfSpace', message: 'the budget is used up' });
  });

  it('says how the API of an agent differs that does not know a call', async () => {
    await start('c');
    const { control } = await agents.find('c');
    const { signal } = new AbortController();
    await assert.rejects(control.call('listPins', { ownerPrefix: '' }, { signal }), {
      code: 'Unsupported',
      message:
        /^the agent does not know this call .*: the agent on a speaks version 0 of the control API, the CSI driver version 1: .*; upgrade the agent$/,
    });
  });

  it('gives up at the deadline, when the caller does, and when the agent dies', async () => {
    const agent = await start('c');
    let asked = 0;
    agent.publish = () => {
      asked++;
      return new Promise(() => undefined);
    };
    const hasty = new NodeAgents({ stateDirectory: folder.path, node: 'n1', deadlineMs: 400 });
    // On a busy machine the deadline may be over before the agent hears of the call.
    await until('it is asked in time', async () => {
      await assert.rejects(publish(undefined, hasty), { code: 'DeadlineExceeded', message: /did not answer in time/ });
      return asked > 0;
    });
    const before = asked;
    const controller = new AbortController();
    const given = publish(controller.signal);
    const isGiven = assert.rejects(given, { code: 'Cancelled', message: 'given up' });
    await until('it is asked', () => asked > before);
    controller.abort(new HearthError('Cancelled', 'given up'));
    await isGiven;
    const after = asked;
    const dying = publish();
    const isDying = assert.rejects(dying, { code: 'Unavailable', message: /went away during the call/ });
    await until('it is asked', () => asked > after);
    await agent.stop();
    await isDying;
  });

  it('notices something else on the socket', async () => {
    mkdirSync(folder.file('c/run'), { recursive: true });
    const server = createServer((socket) => void socket.on('error', () => undefined).end('HTTP/1.0 400\r\n\r\n'));
    server.listen(folder.file('c/run/agent.sock'));
    await once(server, 'listening');
    await assert.rejects(publish(), (error: HearthError) => ['Unavailable', 'DeadlineExceeded'].includes(error.code));
    server.close();
  });
});
