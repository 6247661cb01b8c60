import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { MiB, needsRoot, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { Network } from '../../bench/network.ts';

const names = ['a', 'b', 'c'];
const bytes = 41 * MiB;

interface Job {
  nodes: { node: string; originBytes: number; peerBytes: number }[];
}

describe('a network that loses packets', () => {
  let network: Network;
  let cluster: Cluster;

  before(async function () {
    needsRoot(this);
    network = await Network.create(names, 1e9);
    for (const name of names) loseOneOfTwenty(name);
    cluster = await Cluster.start(names, { settingsOf: (name) => network.place(name) });
    await cluster.allReady();
    const origin = join(cluster.folder, 'origin');
    writeSample(origin, { one: 25 * MiB, two: 12 * MiB, three: 4 * MiB });
    await cluster.json('a', 'dataset', 'add', 'd', origin);
  });
  after(async () => {
    await cluster?.close();
    await network?.remove();
  });

  const nft = (name: string, ...words: string[]): string =>
    execFileSync('ip', ['netns', 'exec', network.place(name).namespace, 'nft', ...words], { encoding: 'utf8' });

  /** Of the packets that come in. */
  function loseOneOfTwenty(name: string): void {
    nft(name, 'add', 'table', 'inet', 'lossy');
    nft(name, 'add chain inet lossy input { type filter hook input priority 0; }');
    nft(name, 'add rule inet lossy input iifname eth0 numgen random mod 20 == 0 counter drop');
  }
  const lostBy = (name: string): number =>
    Number(/counter packets (\d+)/.exec(nft(name, 'list', 'table', 'inet', 'lossy'))?.[1]);

  it('costs time, and neither a byte nor a job', async () => {
    await cluster.json('a', 'warm', 'd', '--node', 'a');
    const { nodes } = await cluster.json<Job>('a', 'warm', 'd', '--node', 'b,c');
    for (const node of nodes) {
      assert.equal(node.originBytes, 0, node.node);
      assert.ok(node.peerBytes >= bytes, `${node.node}: ${node.peerBytes}`);
    }
    const { summary } = await cluster.json<{ summary: Record<string, number> }>('b', 'verify', 'd');
    assert.equal(summary.mismatches, 0);
    assert.equal(summary.localBytes, bytes);
    for (const name of ['b', 'c']) assert.ok(lostBy(name) > 5, `${name} lost ${lostBy(name)}`);
  });
});
