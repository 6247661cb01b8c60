import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { createLogger } from '@hearth/common';
import { findTool, until } from '@hearth/common/testing';
import { makeSelfTest } from '../selftest/make.ts';
import { EtcdServer } from '../store/testing/etcd_server.ts';
import { FakeEngine } from '../testing/fake_engine.ts';
import { FakeFabric } from '../testing/fake_fabric.ts';
import { startAgent, testConfig } from '../testing/running_agent.ts';
import type { RunningAgent } from './run_agent.ts';

const soon = () => AbortSignal.timeout(300_000);
const source = {
  kind: { $case: 'selfTest' as const, value: {} },
  allowPrivate: false,
  unusableNames: '',
  allowWeakValidators: false,
};

/** Agents whose etcd loses all data, as when its pod with an emptyDir is recreated. */
describe('agents on a store that is emptied', () => {
  let folder: string;
  let etcd: EtcdServer | undefined;
  let log = '';
  const stops: (() => Promise<void>)[] = [];
  before(async function () {
    const found = await findTool('etcd');
    if ('missing' in found) {
      console.log(`      skipped: ${found.missing}`);
      this.skip();
    }
    folder = await mkdtemp(join(tmpdir(), 'hearth-emptied-'));
    await makeSelfTest(join(folder, 'selftest'));
    etcd = new EtcdServer(found.program);
    await etcd.start();
  });
  after(async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
    await etcd?.erase();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  async function start(node: string, fabric: FakeFabric): Promise<RunningAgent> {
    const config = await testConfig(folder, node, {
      store: `etcd://${etcd?.endpoint}`,
      'self-test-directory': join(folder, 'selftest'),
    });
    const stream = new Writable({
      write(chunk, _encoding, done) {
        log += chunk;
        done();
      },
    });
    const { serving, stop } = startAgent(config, {
      engineFactory: async (options) => new FakeEngine(fabric, options),
      logger: createLogger({ level: 'info', format: 'json', stream }),
    });
    stops.push(stop);
    return await serving;
  }

  it('register again, report the lost datasets, and continue when they are added again', async () => {
    const fabric = new FakeFabric();
    const [a, b] = await Promise.all([start('a', fabric), start('b', fabric)]);
    const add = (to: RunningAgent) =>
      to.agent.resolution.add('d', { source, include: [], exclude: [] }, () => {}, soon());
    const { manifest } = (await add(a)).dataset;
    const everybody = () => [a, b].every(({ agent }) => agent.context.members.ready().length === 2);
    await until(everybody);
    await a.agent.mounts.mount('d', '/mnt/d', 'auto', soon());
    await until(() => b.agent.datasets.mirror.get('d') !== undefined);

    await etcd?.erase();
    await etcd?.start();
    await until(() => [a, b].every(({ agent }) => agent.datasets.mirror.get('d') === undefined));
    await until(async () => (await b.agent.context.store.range('nodes/')).entries.length === 2);
    await until(everybody);
    assert.match(
      log,
      /the store lost all datasets; the operator adds them again, and without Kubernetes `hearth dataset add` does/,
    );
    await assert.rejects(b.agent.datasets.get('d'), {
      code: 'NotFound',
      message: /dataset d was lost with the store at .*; add the dataset again/,
    });
    await until(async () => (await b.agent.mounts.of('d')).length === 1);

    for (const node of ['a', 'b']) {
      const { disk } = fabric.engines.get(node) as FakeEngine;
      assert.ok(disk.manifests.has(manifest), 'readers go on with what is here');
    }
    const again = await add(b);
    assert.equal(again.dataset.manifest, manifest);
    await until(() => a.agent.datasets.mirror.get('d') !== undefined);
    assert.equal((await a.agent.datasets.get('d')).state, 'Ready');
  });
});
