import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import type { SetCredentialsRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import type { StorageCluster } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import type { Source } from '../kubernetes/index.ts';
import { runDatasetController } from './dataset_controller.ts';
import { FakeAgents } from './testing/fake_agents.ts';
import { agentDataset, dataset, now, readyStatus } from './testing/fixtures.ts';

function fixed<P>(objects: Readonly<Record<string, P>>): Source<P> {
  return {
    get: (key) => objects[key],
    all: () => Object.values(objects),
    keys: () => Object.keys(objects),
    onChange: () => () => undefined,
    synced: async () => undefined,
  };
}

const mirrored = dataset(
  {
    source: { http: { urls: ['https://a.example/m/'] } },
    mirrors: [{ http: { urls: ['https://b.example/m/'] }, secretRef: { name: 'b' } }],
  },
  readyStatus(),
);
mirrored.metadata.finalizers = ['hearth.storage/finalizer'];

describe('credentials of mirrors while agents are upgraded', () => {
  let agents: FakeAgents;
  let stop: AbortController;
  let running: Promise<void>;
  /** Passes that wrote the status. */
  let written: number;
  const write = async () => {
    written++;
    return mirrored;
  };

  beforeEach(() => {
    written = 0;
    stop = new AbortController();
    agents = new FakeAgents('main', async function* ({ name }) {
      yield { dataset: agentDataset({ name }) };
    });
    agents.connect();
    agents.know('team.llama', agentDataset());
  });
  afterEach(async () => {
    stop.abort();
    await running;
  });

  function start(features: Readonly<Record<string, readonly string[]>>): void {
    agents.run(features);
    const secret = { metadata: { name: 'b' }, data: { token: Buffer.from('t').toString('base64') } };
    const main = {
      metadata: { name: 'main' },
      spec: { origins: { directoryPrefixes: [] } },
    } as never as StorageCluster;
    running = runDatasetController(
      {
        api: { apply: write, patch: write, get: async () => secret } as never,
        agents,
        datasets: fixed({ 'team/llama': mirrored }),
        clusters: fixed({ main }),
        volumes: fixed({}),
        pods: fixed({}),
        nodes: fixed({}),
        events: { eventFor: () => undefined },
        grant: { clusterRole: 'r', serviceAccount: { namespace: 'n', name: 's' } },
        logger: silentLogger,
        now: () => now,
      },
      stop.signal,
    );
  }
  const sent = () =>
    agents.calls.flatMap(({ name, request, feature }) =>
      name === 'setCredentials'
        ? [[(request as SetCredentialsRequest).credentials?.mirrors?.mirrors.length, feature]]
        : [],
    );

  it('go to agents that take them alone, and again when others do', async () => {
    start({ a: [], b: ['mirrors'] });
    await until('the first', () => sent().length === 1);
    // An upgraded operator may have asked an agent that knows no mirrors.
    agents.run({ a: ['mirrors'], b: ['mirrors'] });
    await until('the second', () => sent().length === 2);
    assert.deepEqual(sent(), [
      [1, 'mirrors'],
      [1, 'mirrors'],
    ]);
  });

  it('wait until an agent takes them', async () => {
    start({ a: [], b: [] });
    await until('a pass', () => written > 0);
    assert.deepEqual(sent(), []);
    agents.run({ a: [], b: ['mirrors'] });
    await until('the first', () => sent().length === 1);
    assert.deepEqual(sent(), [[1, 'mirrors']]);
  });

  it('let a Dataset go on that waited for the upgrade', async () => {
    agents.know('team.llama', undefined);
    start({ a: [], b: ['mirrors'] });
    await until('a pass', () => written > 0);
    assert.deepEqual(agents.calls, []);
    agents.run({ a: ['mirrors'], b: ['mirrors'] });
    await until('a look', () => agents.called('addDataset').length === 1);
    assert.deepEqual(
      agents.calls.map(({ name, feature }) => [name, feature]),
      [['addDataset', 'mirrors']],
    );
  });
});
