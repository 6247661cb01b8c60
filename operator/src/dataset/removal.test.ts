import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { Removal } from './removal.ts';
import { FakeAgents } from './testing/fake_agents.ts';
import { agentDataset, dataset } from './testing/fixtures.ts';

const { signal } = new AbortController();

describe('removal of a Dataset', () => {
  let agents: FakeAgents;
  let removal: Removal;
  let now: number;
  beforeEach(() => {
    now = 0;
    agents = new FakeAgents('main', async function* () {});
    agents.connect();
    removal = new Removal({ agents, nodes: () => ['n1', 'n2'], now: () => now, timeoutMs: 300_000 });
  });

  it('has agents drop the bytes, and forget the credentials after that', async () => {
    agents.know('team.llama', agentDataset());
    const withSecret = dataset({ secretRef: { name: 's' } });
    assert.deepEqual(await removal.remove(withSecret, 'main', signal), { kind: 'removed' });
    assert.deepEqual(agents.calls[0], {
      name: 'removeDataset',
      request: { name: 'team.llama', evict: true, nodes: [] },
    });
    assert.equal(agents.calls[1]?.name, 'setCredentials');
    assert.deepEqual(await removal.remove(withSecret, 'main', signal), { kind: 'removed' });
  });

  it('waits for agents that say it is in use, but not for ever: the node may be gone for good', async () => {
    const inUse = new HearthError('InUse', 'it is mounted on n1');
    agents.failing.set('removeDataset', inUse);
    for (now = 0; now < 3_600_000; now += 600_000) {
      const result = await removal.remove(dataset(), 'main', signal);
      assert.deepEqual(result, {
        kind: 'waits',
        message: 'it is mounted on n1',
        inUse: true,
        retryMs: now === 0 ? 2_000 : 10_000,
      });
    }
    // Agents that are away in between begin nothing again.
    agents.failing.set('removeDataset', new HearthError('Unavailable', 'no route'));
    now = 3_590_000;
    assert.equal((await removal.remove(dataset(), 'main', signal)).kind, 'waits');
    agents.failing.set('removeDataset', inUse);
    now = 3_600_000;
    const result = await removal.remove(dataset(), 'main', signal);
    assert.ok(result.kind === 'abandoned');
    assert.match(result.message, /still report the Dataset as in use \(it is mounted on n1\)/);
  });

  it('sends agents that say it is in use which nodes there are: mounts of others went with them', async () => {
    agents.failing.set('removeDataset', new HearthError('InUse', 'it is mounted on gone'));
    assert.equal((await removal.remove(dataset(), 'main', signal)).kind, 'waits');
    assert.deepEqual(agents.called('removeDataset'), [
      { name: 'team.llama', evict: true, nodes: [] },
      { name: 'team.llama', evict: true, nodes: ['n1', 'n2'] },
    ]);
  });

  it('ends without agents that cannot be reached for five minutes', async () => {
    agents.failing.set('removeDataset', new HearthError('Unavailable', 'no route'));
    const kind = async () => (await removal.remove(dataset(), 'main', signal)).kind;
    assert.equal(await kind(), 'waits');
    now = 299_999;
    assert.equal(await kind(), 'waits');
    now = 300_000;
    const result = await removal.remove(dataset(), 'main', signal);
    assert.ok(result.kind === 'abandoned');
    assert.match(result.message, /agents of StorageCluster main did not forget the Dataset \(no route\)/);
    assert.equal((await removal.remove(dataset(), 'other', signal)).kind, 'waits');
  });
});
