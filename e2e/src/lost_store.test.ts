import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { findTool, MiB, skip, until, writeSample } from '@hearth/common/testing';
import { type AgentProcess, Cluster } from '@hearth/common/testing/agents';
import { EtcdServer } from '../../node-agent/src/store/testing/etcd_server.ts';

describe('agents whose store is gone', () => {
  let cluster: Cluster;
  let etcd: EtcdServer;

  before(async function () {
    const found = await findTool('etcd');
    if ('missing' in found) skip(this, found.missing);
    etcd = new EtcdServer(found.program);
    cluster = await Cluster.start([]);
  });
  beforeEach(async () => etcd.start());
  afterEach(async () => etcd.kill());
  after(async () => {
    await cluster?.close();
    await etcd?.erase();
  });

  /** An agent that leads, or waits to, with a job that goes on. */
  async function busy(name: string): Promise<AgentProcess> {
    const flags = ['--store', `etcd://${etcd.endpoint}`];
    const agent = await cluster.add(name, { flags });
    const origin = join(cluster.folder, `origin-${name}`);
    mkdirSync(origin);
    writeSample(origin, { one: 64 * MiB });
    await cluster.json(name, 'dataset', 'add', name, origin);
    await cluster.hearth(name, 'warm', name, '--rate', '1MiB', '--detach');
    return agent;
  }

  const losses: [what: string, lose: () => Promise<void>][] = [
    ['is away', () => etcd.kill()],
    ['does not answer any more', () => etcd.pause()],
  ];
  for (const [index, [what, lose]] of losses.entries()) {
    it(`end in order when it ${what}`, async () => {
      const agent = await busy(`a${index}`);
      await lose();
      const { code, stderr } = await agent.stop();
      // Otherwise it has not ended within its own limit, which is less than a kubelet gives it.
      assert.equal(code, 0, stderr);
    });
  }

  it('waits for it at the start when configured so, says so, and serves when it comes', async () => {
    const flags = ['--store', `etcd://${etcd.endpoint}`, '--on-start-failure', 'wait'];
    await etcd.kill();
    const agent = cluster.prepare('patient', { flags });
    const { child } = await agent.launch();
    const ready = async () => await fetch(`http://127.0.0.1:${agent.healthPort}/readyz`).catch(() => undefined);
    await until('it says why', async () => /no member can be reached/.test((await (await ready())?.text()) ?? ''));
    const refused = await cluster.hearth('patient', 'status');
    assert.equal(refused.code, 6, refused.stderr);
    assert.match(refused.stderr, /does not answer, so this agent does not know the cluster/);
    await etcd.start();
    await until('it serves', async () => (await ready())?.ok);
    assert.equal(child.exitCode, null);
    assert.equal((await agent.stop()).code, 0);
  });
});
