import assert from 'node:assert/strict';
import { elapse, steady, until } from '@hearth/common/testing';
import { DatasetCluster, datasetObject, promptAgents, storageCluster } from './testing/dataset_cluster.ts';
import type { FakeAgents } from './testing/fake_agents.ts';
import { TestOperator } from './testing/test_operator.ts';

const datasets = 500;

describe('five hundred Datasets', () => {
  let cluster: DatasetCluster;
  let agents: FakeAgents;
  let operator: TestOperator | undefined;

  before(async function () {
    cluster = await DatasetCluster.start(this);
    agents = promptAgents('main');
  });
  after(async () => {
    await operator?.stop();
    await cluster?.stop();
  });

  const states = async () => {
    const path = '{range .items[*]}{.metadata.name} {.metadata.resourceVersion} ';
    const ready = '{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}';
    return (await cluster.kubectl('get', 'datasets', '-o', `jsonpath=${path}${ready}`)).split('\n');
  };

  it('settle', async () => {
    const names = Array.from({ length: datasets }, (_, index) => `d${index}`);
    await cluster.apply(storageCluster('main'), ...names.map((name) => datasetObject(name)));
    const start = performance.now();
    operator = new TestOperator(cluster.operator, agents);
    await until('all Ready', async () => (await states()).filter((one) => one.endsWith('True')).length === datasets);
    console.log(`      ${datasets} Datasets were Ready after ${((performance.now() - start) / 1000).toFixed(1)} s`);
    assert.equal(agents.called('addDataset').length, datasets);
  });

  it('are not written again by an operator that starts', async () => {
    const before = await steady('what is written', 1_000, states);
    await operator?.stop();
    const later = promptAgents('main');
    later.knowAll(agents.status?.datasets ?? new Map());
    operator = new TestOperator(cluster.operator, later);
    await elapse(5_000, 'it would write');
    assert.deepEqual(await states(), before);
    assert.deepEqual(later.calls, []);
  });
});
