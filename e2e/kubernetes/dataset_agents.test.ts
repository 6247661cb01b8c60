import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';
import type { Cluster } from '@hearth/common/testing/agents';
import { type ScriptedServer, startServer } from '@hearth/common/testing/origins';
import { makeSelfTest } from '../../node-agent/src/selftest/make.ts';
import { RealAgents } from '../../operator/src/agents/testing/real_agents.ts';
import {
  conditionOf,
  DatasetCluster,
  datasetObject,
  storageCluster,
} from '../../operator/src/dataset/testing/dataset_cluster.ts';
import { TestOperator } from '../../operator/src/dataset/testing/test_operator.ts';

const quickly = { secretTimes: { foundMs: 500, failedMs: 500 } };

describe('Datasets in a real API server, at real agents by mutual TLS', () => {
  let cluster: DatasetCluster;
  let hearth: Cluster;
  let agents: RealAgents;
  let operator: TestOperator;
  let origin: ScriptedServer;
  let url: string;
  const content = randomBytes(100_000);

  before(async function () {
    cluster = await DatasetCluster.start(this);
    agents = await RealAgents.start();
    hearth = agents.hearth;
    const selfTest = join(hearth.folder, 'selftest');
    await makeSelfTest(selfTest);
    for (const node of ['n1', 'n2']) await agents.add(node, { flags: ['--self-test-directory', selfTest] });
    // A model behind a gate whose listing everybody may read.
    origin = await startServer();
    origin.handler = (request, response) => {
      const name = (request.url ?? '').slice(1);
      const etag = `"${createHash('sha256').update(name).digest('hex')}"`;
      const gated = name !== '' && request.method !== 'HEAD' && request.headers.authorization !== 'Bearer hf_right';
      if (gated) response.writeHead(403).end();
      else if (name === '')
        response.writeHead(200, { 'content-type': 'text/html' }).end('<a href="model.bin">model</a>');
      else response.writeHead(200, { etag, 'content-length': content.length, 'accept-ranges': 'bytes' }).end(content);
    };
    url = `${origin.url}/`;
    await cluster.apply(storageCluster('main', [hearth.folder]));
    operator = new TestOperator(cluster.operator, agents.directory, quickly);
  });
  after(async () => {
    await operator?.stop();
    await agents?.close();
    await origin?.stop();
    await cluster?.stop();
  });

  it('become Ready, are seen to arrive on nodes, and are forgotten', async () => {
    const folder = join(hearth.folder, 'model');
    mkdirSync(folder);
    for (const name of ['a.bin', 'b.bin']) writeFileSync(join(folder, name), randomBytes(300_000));
    await cluster.apply(datasetObject('model', { source: { directory: { path: folder } }, exclude: ['b.*'] }));
    const ready = await cluster.reason('model', 'Ready');
    assert.deepEqual([ready.status?.files, ready.status?.bytes, ready.status?.percent], [1, 300_000, 0]);
    await hearth.json('n1', 'warm', 'default.model', '--node', 'n1');
    const warm = await until('residency', async () => {
      const { status } = await cluster.dataset('model');
      return status?.percent === 100 ? status : undefined;
    });
    assert.deepEqual(warm.residency, [{ node: 'n1', residentBytes: 300_000, percent: 100 }]);
    await cluster.kubectl('patch', 'dataset', 'model', '--type=merge', '-p', '{"spec":{"exclude":[]}}');
    await until('the other file', async () => (await cluster.dataset('model')).status?.files === 2);
    await cluster.kubectl('delete', 'dataset', 'model', '--timeout=300s');
    // Another agent may have been asked to.
    const known = async () => (await hearth.json<{ datasets: unknown[] }>('n1', 'status')).datasets.length;
    await until('no agent knows it', async () => (await known()) === 0);
  });

  it('carry the built-in files without any origin', async () => {
    await cluster.apply(datasetObject('selftest'));
    const { status } = await cluster.reason('selftest', 'Ready');
    assert.ok((status?.files ?? 0) > 0);
  });

  it('report what is wrong with an origin in the words of the agent', async () => {
    await cluster.apply(datasetObject('absent', { source: { directory: { path: join(hearth.folder, 'none') } } }));
    const dataset = await cluster.reason('absent', 'NotFound');
    assert.match(conditionOf(dataset, 'Ready')?.message ?? '', /none/);
  });

  it('are not Ready by a public listing: one byte must be read with their own credentials', async () => {
    const gate = { source: { http: { urls: [url] } }, secretRef: { name: 'gate' } };
    await cluster.kubectl('create', 'secret', 'generic', 'gate', '--from-literal=token=hf_wrong');
    const role = ['--clusterrole=hearth-secrets', `--user=system:serviceaccount:hearth-system:hearth-operator`];
    await cluster.kubectl('create', 'rolebinding', 'secrets', ...role);
    await cluster.apply(datasetObject('gated', gate));
    const refused = await until('refused', async () => {
      const ready = conditionOf(await cluster.dataset('gated'), 'Ready');
      return ready?.reason === 'PermissionDenied' || ready?.reason === 'Unauthenticated' ? ready : undefined;
    });
    assert.doesNotMatch(refused.message, /hf_wrong/);
    await cluster.kubectl('patch', 'secret', 'gate', '-p', '{"stringData":{"token":"hf_right"}}');
    const { status } = await cluster.reason('gated', 'Ready');
    assert.equal(status?.bytes, content.length);
  });
});
