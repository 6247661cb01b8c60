import assert from 'node:assert/strict';
import { join } from 'node:path';
import { needsMounts, needsPrograms, run, tool, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

interface Start {
  result: number;
  found: number;
  compiled: number;
}

/** What programs compile while they run, kept on a scratch volume of two nodes (examples/compile-cache.yaml). */
describe('a compile cache on a scratch volume', () => {
  const kernels = join(import.meta.dirname, 'scratch/compiled_kernels.py');
  const result = 999_000;
  let cluster: Cluster;
  let python: string;
  const mounts: Record<string, string> = {};

  before(async function () {
    needsMounts(this);
    python = await needsPrograms(this, () => tool('numba-python'));
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    await cluster.allReady();
    await cluster.json('a', 'volume', 'create', 'cache', '--size', '1Gi');
    await until('an agent leads it', async () => {
      return (await cluster.json<{ state: string }>('b', 'volume', 'show', 'cache')).state === 'Ready';
    });
    for (const agent of ['a', 'b']) {
      mounts[agent] = cluster.mountPoint(agent);
      await cluster.json(agent, 'mount', 'volume:cache', mounts[agent]);
    }
  });
  after(async () => cluster?.close());

  async function start(agent: string, folder: string): Promise<Start> {
    const environment = { NUMBA_CACHE_DIR: join(mounts[agent] ?? '', folder) };
    const { code, stdout, stderr } = await run(python, [kernels], { environment, timeoutMs: 5 * 60_000 });
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  }

  it('lets the second start compile nothing, on another node', async () => {
    assert.deepEqual(await start('a', 'numba'), { result, found: 0, compiled: 2 });
    assert.deepEqual(await start('b', 'numba'), { result, found: 2, compiled: 0 });
    assert.deepEqual(await start('a', 'numba'), { result, found: 2, compiled: 0 });
  });

  it('is whole after two nodes that compile at once', async () => {
    for (const started of await Promise.all([start('a', 'both'), start('b', 'both')])) {
      assert.equal(started.result, result);
    }
    for (const agent of ['a', 'b']) assert.deepEqual(await start(agent, 'both'), { result, found: 2, compiled: 0 });
  });

  it('outlives the agents', async () => {
    for (const agent of ['a', 'b']) {
      await cluster.agent(agent).kill();
      await cluster.agent(agent).start();
    }
    await cluster.allReady();
    assert.deepEqual(await start('b', 'numba'), { result, found: 2, compiled: 0 });
  });
});
