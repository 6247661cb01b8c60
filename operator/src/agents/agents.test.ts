import assert from 'node:assert/strict';
import { controlApi, HearthError, silentLogger } from '@hearth/common';
import {
  AddDatasetProgress,
  Dataset,
  GetStatusResponse,
  NodeReport,
  NodeStatus,
  VerifyRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { until } from '@hearth/common/testing';
import { agentName, planCertificates, type SecretRole } from '../certificates/index.ts';
import type { SecretTexts } from '../kubernetes/index.ts';
import type { ClientIdentity } from './agent_connection.ts';
import { AgentDirectory } from './agent_directory.ts';
import { type ClusterAgents, statusIntervalMs } from './agents.ts';
import { type Answers, FakeAgent, nodeStatus } from './testing/fake_agent.ts';

type Texts = Record<SecretRole, SecretTexts>;
const cluster = 'models';
const signal = new AbortController().signal;
/** Of what must fail for another reason than its deadline. */
const deadlineMs = 300_000;

function identityOf(texts: Texts): ClientIdentity {
  const { operator } = texts;
  return {
    certificate: operator['tls.crt'] ?? '',
    key: operator['tls.key'] ?? '',
    authorities: operator['ca.crt'] ?? '',
    serverName: agentName(cluster),
  };
}

describe('agents of a cluster', () => {
  let texts: Texts;
  let directory: AgentDirectory;
  let started: FakeAgent[];

  before(async () => {
    texts = (await planCertificates({ cluster, peers: [] }, {}, new Date())).texts;
  });
  beforeEach(() => {
    started = [];
    directory = new AgentDirectory(silentLogger, { connectMs: deadlineMs });
  });
  afterEach(async () => {
    await directory.close();
    for (const agent of started) agent.kill();
  });

  async function start(node: string, answers: Answers = {}, agentTexts = texts.agent): Promise<FakeAgent> {
    const agent = await FakeAgent.start(node, agentTexts, answers);
    started.push(agent);
    return agent;
  }

  function connect(agents: FakeAgent[], identity = identityOf(texts)): ClusterAgents {
    directory.configure(
      cluster,
      identity,
      agents.map((agent) => agent.endpoint),
    );
    const found = directory.get(cluster);
    assert.ok(found);
    return found;
  }

  it('are watched by one stream, whose messages reach the listeners', async () => {
    const agents = [await start('a'), await start('b')];
    const heard: (boolean | undefined)[] = [];
    directory.onChange((_cluster, _before, after) => heard.push(after?.connected));
    for (const agent of agents) {
      agent.publish({
        nodes: [nodeStatus('a'), nodeStatus('b', { ready: false })],
        datasets: [Dataset.fromPartial({ name: 'ns.d' })],
      });
    }
    const models = connect(agents);
    await until('a status', () => models.status !== undefined);
    assert.deepEqual(agents.map((agent) => agent.watchers).sort(), [0, 1]);
    assert.equal(models.status?.nodes.get('b')?.ready, false);
    assert.ok(models.status?.datasets.has('ns.d'));
    await directory.forget(cluster);
    assert.deepEqual(heard, [true, undefined]);
    assert.equal(directory.get(cluster), undefined);
  });

  it('are watched through another agent when one is lost, and are unknown when all are', async () => {
    const agents = [await start('a'), await start('b')];
    for (const agent of agents) agent.publish({ nodes: [nodeStatus('a'), nodeStatus('b')] });
    const models = connect(agents);
    await until('a status', () => models.status !== undefined);
    const watched = agents.find((agent) => agent.watchers === 1);
    const other = agents.find((agent) => agent !== watched);
    watched?.kill();
    await until('a stream to the other', () => other?.watchers === 1);
    other?.kill();
    await until('loss', () => models.status?.connected === false);
    assert.ok(models.status?.nodes.has('a'), 'what was known stays');
    assert.match(models.trouble ?? '', /^[ab]: the agent on [ab] cannot be reached/);
    await other?.restart();
    other?.publish({ nodes: [nodeStatus('b')] });
    await until('recovery', () => models.status?.connected === true);
    assert.equal(models.trouble, undefined);
  });

  it('report for themselves, and go on where a lost stream ended', async () => {
    const reports = (node: string): Answers => ({
      watchNode: async function* ({ known }) {
        const sequence = (known?.sequence ?? 0n) + 1n;
        const mark = { incarnation: node, sequence };
        const more = known === undefined;
        yield NodeReport.fromPartial({ mark, whole: more, more, figures: { budgetBytes: sequence } });
        if (more) yield NodeReport.fromPartial({ mark, datasets: [{ dataset: 'ns.d', residentBytes: 5n }] });
        await new Promise(() => undefined);
      },
    });
    const [a, b] = [await start('a', reports('a')), await start('b', reports('b'))];
    const wire = [{ host: '10.0.0.1', port: 7527 }];
    const nodes = ['a', 'b'].map((node) => nodeStatus(node, { wire, apiFeatures: [...controlApi.apiFeatures] }));
    const changes = { whole: true, more: false, nodesGone: [], datasetsGone: [], jobsGone: [] };
    const heard: number[] = [];
    directory.onChange((_cluster, _before, after) => heard.push(after?.datasets.get('ns.d')?.residency.length ?? -1));
    for (const agent of [a, b]) agent.publish({ nodes, datasets: [Dataset.fromPartial({ name: 'ns.d' })], changes });
    const models = connect([a, b]);
    await until('a status', () => models.status !== undefined);
    assert.deepEqual(heard[0], 2, 'the first status waits for the reports');
    assert.deepEqual(models.status?.nodes.get('b')?.residentBytes, { 'ns.d': 5n });

    b.kill();
    await until('the loss', () => models.status?.nodes.get('b')?.figuresMissing !== '');
    assert.equal(models.status?.nodes.get('b')?.budgetBytes, 1n, 'what was known stays');
    await b.restart();
    await until('the next report', () => models.status?.nodes.get('b')?.budgetBytes === 2n);
    assert.deepEqual(models.status?.nodes.get('b')?.residentBytes, { 'ns.d': 5n });
  });

  it('are not believed when their API is too far from ours', async () => {
    const agent = await start('a');
    agent.publish({ apiVersion: 3 });
    const models = connect([agent]);
    await until('trouble', () => models.trouble !== undefined);
    assert.match(models.trouble ?? '', /^a: the agent on a speaks version 3 .*; upgrade the operator$/);
    assert.ok(models.status === undefined);
    agent.publish({ apiVersion: 2 });
    const differences = () => models.status?.apiDifferences;
    await until('a status', () => differences() !== undefined);
    assert.match(differences()?.[0] ?? '', /^the agent on a speaks version 2 .* is off; upgrade the operator$/);
  });

  it('say how their API differs when they do not know a call', async () => {
    const status = GetStatusResponse.fromPartial({ node: 'a' });
    const models = connect([await start('a', { getStatus: () => status })]);
    const sentence =
      /does not know this call .*: the agent on a speaks version 0 .*, the operator version 1: .*; upgrade the agent$/;
    await assert.rejects(models.call('listPins', { ownerPrefix: '' }, { signal }), {
      code: 'Unsupported',
      message: sentence,
    });
    const verified = models.stream('verify', VerifyRequest.fromPartial({}), { signal });
    await assert.rejects(async () => {
      for await (const _ of verified);
    }, sentence);
  });

  it('answer calls in place of one another, but not when the answer is an error of the call', async () => {
    const missing = () => {
      throw new HearthError('NotFound', 'there is no dataset ns.d');
    };
    const first = await start('a', { getDataset: missing });
    const second = await start('b', { getDataset: missing });
    const models = connect([first, second]);
    first.kill();
    await assert.rejects(models.call('getDataset', { name: 'ns.d' }, { signal }), {
      code: 'NotFound',
      message: 'there is no dataset ns.d',
    });
    second.kill();
    await assert.rejects(models.call('getDataset', { name: 'ns.d' }, { signal, deadlineMs }), { code: 'Unavailable' });
  });

  it('are asked elsewhere when one is silent, within the deadline', async () => {
    const silent = await start('a', { getDataset: () => new Promise(() => undefined) });
    const other = await start('b', { getDataset: () => Dataset.fromPartial({ name: 'ns.d' }) });
    // The silent one is asked first, as the other is not ready.
    for (const agent of [silent, other]) agent.publish({ nodes: [nodeStatus('a'), nodeStatus('b', { ready: false })] });
    const models = connect([silent, other]);
    await until('a status', () => models.status !== undefined);
    // The other has half of the time; it is connected already.
    await models.call('getDataset', { name: 'ns.d' }, { signal, deadlineMs, node: 'b' });
    assert.equal((await models.call('getDataset', { name: 'ns.d' }, { signal, deadlineMs: 12_000 })).name, 'ns.d');
    const asked = ({ requests }: FakeAgent) => requests.filter(([name]) => name === 'getDataset').length;
    assert.deepEqual([asked(silent), asked(other)], [1, 2]);
  });

  it('are asked by name when only one of them knows', async () => {
    const configured: string[] = [];
    const answers = (node: string): Answers => ({
      configureNode: () => {
        configured.push(node);
        return {};
      },
    });
    const models = connect([await start('a', answers('a')), await start('b', answers('b'))]);
    await models.call('configureNode', { zone: 'z', rack: 'r' }, { signal, node: 'b' });
    assert.deepEqual(configured, ['b']);
    await assert.rejects(models.call('configureNode', { zone: 'z', rack: '' }, { signal, node: 'c' }), {
      message: 'no agent of cluster models runs on node c',
    });
  });

  it('are asked only where they offer what the call needs', async () => {
    const answers: Answers = { setCredentials: () => ({}) };
    const agents = [await start('a', answers), await start('b', answers), await start('c', answers)];
    const nodes = ['a', 'b', 'c'].map((node) => nodeStatus(node, { apiFeatures: node === 'b' ? ['mirrors'] : [] }));
    for (const agent of agents) agent.publish({ nodes });
    const models = connect(agents);
    const give = (feature: string) =>
      models.call('setCredentials', { dataset: 'd', credentials: undefined }, { signal, deadlineMs, feature });
    await assert.rejects(give('mirrors'), { code: 'Unavailable' });
    await until('a status', () => models.status !== undefined);
    for (let round = 0; round < 8; round++) await give('mirrors');
    const asked = agents.map(({ requests }) => requests.filter(([name]) => name === 'setCredentials').length);
    assert.deepEqual(asked, [0, 8, 0]);
    await assert.rejects(give('later'), {
      code: 'Unavailable',
      message: 'no agent of cluster models offers "later"; upgrade the agents',
    });
  });

  it('stream, from another agent only before the first answer', async () => {
    const progress = (files: bigint) => AddDatasetProgress.fromPartial({ filesListed: files });
    const breaking = async function* () {
      yield progress(1n);
      throw new HearthError('Unavailable', 'gone');
    };
    const broken = await start('a', { addDataset: breaking });
    const models = connect([broken]);
    const seen: bigint[] = [];
    await assert.rejects(async () => {
      for await (const one of models.stream('addDataset', request, { signal })) seen.push(one.filesListed);
    }, /gone/);
    assert.deepEqual(seen, [1n]);
    const whole = await start('b', {
      addDataset: async function* () {
        yield progress(7n);
      },
    });
    broken.kill();
    connect([broken, whole]);
    seen.length = 0;
    for await (const one of models.stream('addDataset', request, { signal })) seen.push(one.filesListed);
    assert.deepEqual(seen, [7n]);
  });

  it('are not believed without a certificate of the cluster', async () => {
    const stranger = (await planCertificates({ cluster, peers: [] }, {}, new Date())).texts;
    const impostor = await start('a', { getDataset: () => Dataset.fromPartial({ name: 'x' }) }, stranger.agent);
    const models = connect([impostor]);
    await assert.rejects(models.call('getDataset', { name: 'x' }, { signal, deadlineMs }), { code: 'Unavailable' });
    assert.deepEqual(impostor.requests, []);
  });

  it('are reached with a renewed identity without being asked to', async () => {
    const next = (await planCertificates({ cluster, peers: [] }, {}, new Date())).texts;
    const agent = await start('a', {}, next.agent);
    agent.publish({ nodes: [nodeStatus('a')] });
    const models = connect([agent]);
    await until('it is not believed', () => models.trouble !== undefined);
    assert.equal(models.status, undefined);
    connect([agent], identityOf(next));
    await until('a status', () => models.status !== undefined);
  });

  it('give up when no agent runs, and when the caller does', async () => {
    const models = connect([]);
    await assert.rejects(models.call('listVolumes', {}, { signal }), /no agent of cluster models runs yet/);
    const silent = await start('a', { listVolumes: () => new Promise(() => undefined) });
    connect([silent]);
    const caller = new AbortController();
    const call = models.call('listVolumes', {}, { signal: caller.signal });
    const cancelled = assert.rejects(call, { code: 'Cancelled' });
    await until('the question', () => silent.requests.some(([name]) => name === 'listVolumes'));
    caller.abort();
    await cancelled;
  });

  it('report less often when they are many', () => {
    assert.equal(statusIntervalMs(3), 2000);
    assert.equal(statusIntervalMs(200), 10_000);
    assert.equal(NodeStatus.fromPartial({}).ready, false);
  });
});

const request = { name: 'ns.d', source: undefined, include: [], exclude: [], credentials: undefined };
