import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, run, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

describe('mounts whose holder goes', () => {
  let cluster: Cluster;
  let digests: Map<string, string>;
  let target: string;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(['a'], { holder: true });
    const origin = join(cluster.folder, 'origin');
    digests = writeSample(origin, { large: 40 * MiB + 17, small: 65_537 });
    await cluster.json('a', 'dataset', 'add', 'd', origin);
    target = cluster.mountPoint('a');
  });
  beforeEach(() => cluster.json('a', 'mount', 'd', target, '--data-path', 'fuse'));
  afterEach(async () => {
    await cluster?.json('a', 'umount', target);
    assert.equal((await run('mountpoint', ['-q', target])).code, 32);
  });
  after(async () => cluster?.close());

  const verify = () => {
    for (const [name, digest] of digests) {
      assert.equal(
        createHash('sha256')
          .update(readFileSync(join(target, name)))
          .digest('hex'),
        digest,
      );
    }
  };
  const mounted = async () => {
    const { mounts } = await cluster.json<{ mounts: { target: string; dataset: string }[] }>('a', 'mounts');
    return mounts.map((mount) => `${mount.dataset} at ${mount.target}`);
  };
  /** True when the holder has the mount and its agent: then the agent may go. */
  const held = () =>
    until('the agent has given its mount to the holder', () => unheld(cluster).then((reason) => !reason));

  it('is known to be made of the same sources as the agent that it serves', async () => {
    type Status = { nodes: { capabilities: { name: string; ready: boolean; reason: string }[] }[] };
    const holder = await until('the agent has asked it', async () => {
      const { nodes } = await cluster.json<Status>('a', 'status');
      return nodes[0]?.capabilities.find(({ name }) => name === 'holder');
    });
    assert.match(holder.reason, /^release \d+\.\d+\.\d+\+[0-9a-f]{12}$/);
    assert.equal(holder.ready, true);
  });

  /** Files are read on, open ones too, after the change of holder, and after an agent that ends later. */
  const assertReadOn = async (change: () => Promise<void>) => {
    const open = openSync(join(target, 'large'), 'r');
    await change();
    await held();
    verify();
    await cluster.agent('a').kill();
    await cluster.agent('a').start();
    assert.deepEqual(await mounted(), [`d at ${target}`]);
    verify();
    assert.equal(readSync(open, Buffer.alloc(17), 0, 17, 40 * MiB), 17);
    closeSync(open);
  };

  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    it(`by ${signal}, and later their agent: they are read on`, () =>
      assertReadOn(async () => {
        await cluster.endHolder(signal);
        verify();
        await cluster.startHolder();
      }));
  }

  it('together with their agent: they are made again over what is left of them', async () => {
    await Promise.all([cluster.agent('a').kill(), cluster.endHolder('SIGKILL')]);
    assert.throws(() => readFileSync(join(target, 'small')), { code: 'ENOTCONN' });
    // The agent comes first, as it may.
    await cluster.agent('a').start();
    await cluster.startHolder();
    await until('the mount is there', async () => (await mounted()).length === 1);
    assert.deepEqual(await mounted(), [`d at ${target}`]);
    verify();
  });

  it('because another release takes over: no reader notices', () =>
    assertReadOn(async () => {
      const outcome = await cluster.replaceHolder();
      assert.equal(outcome?.code, 0);
    }));
});

/** Why no agent is attached at the holder yet; nothing when one is. A second mount of it is refused by then. */
async function unheld(cluster: Cluster): Promise<string | undefined> {
  const probe = cluster.mountPoint('probe');
  const { code, stderr } = await cluster.hearth('a', 'mount', 'd', probe, '--data-path', 'fuse');
  if (code !== 0) return stderr;
  await cluster.hearth('a', 'umount', probe);
  return undefined;
}
