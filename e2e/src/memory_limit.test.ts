import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { type StorageClusterSpec, storageClusters } from '@hearth/common/resources';
import { MiB, needsMounts, skip, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import type { z } from 'zod';
import { memoryLimit } from '../../operator/src/storage_cluster/objects/agent_memory.ts';
import { MemoryGroup, type MemoryUse } from './memory_group.ts';

/** The share of the default limit that serves the listing of millions of files, which nothing here needs. */
const listing = 6n << 30n;
const fileBytes = 128 * MiB;
/** HEARTH_TEST_WHOLE_LIMIT=1: the default limit as it is, with more to read than that. Some minutes and 20 GiB of disk. */
const whole = process.env.HEARTH_TEST_WHOLE_LIMIT === '1';

describe('an agent that has the memory which the operator gives it by default', function () {
  this.timeout(1_800_000);
  let cluster: Cluster;
  let memory: MemoryGroup | undefined;
  beforeEach(async () => {
    cluster = await Cluster.start([]);
  });
  afterEach(async () => {
    await cluster?.close();
    await memory?.remove();
  });

  it('warms, and reads through its mount, more than that: page cache goes, nothing is ended, no read fails', async function () {
    needsMounts(this);
    const group = defaultGroup();
    const limit = memoryLimit(group, defaults().origins) - (whole ? 0n : listing);
    memory = MemoryGroup.create(`hearth.test-${process.pid}`, limit);
    if (memory === undefined) skip(this, 'no control group with a limit of memory can be made here');
    // Warmed and read cold, each half of it, is more than the limit, and every byte is in the origin's file too.
    const files = Math.ceil((Number(limit) * 1.3) / fileBytes / 2) * 2;
    const names = Array.from({ length: files }, (_, index) => `file-${index}`);
    const origin = join(cluster.folder, 'origin');
    const digests = writeSample(origin, Object.fromEntries(names.map((name) => [name, fileBytes])));

    await cluster.startHolder();
    const budget = Math.ceil((files * fileBytes * 1.1) / MiB);
    await cluster.add('a', {
      launcher: memory.launcher,
      cacheDirectories: `${join(cluster.folder, 'cache-a')}=${budget}MiB:1GiB`,
      // As the operator has it, which is less than an agent's own.
      flags: ['--engine-buffer-bytes', `${(group.engine.buffer.match(/^\d+/) ?? [])[0]}MiB`],
    });
    const { peak, anonymous, killed } = await watching(memory, async () => {
      await cluster.json('a', 'dataset', 'add', 'd', origin);
      const [warmed, cold] = [names.slice(0, files / 2), names.slice(files / 2)];
      // One by one: a call of the command line has its time, whatever else this disk has to do.
      await withEach(warmed, 2, async (name) => {
        await cluster.json('a', 'warm', 'd', name);
      });
      const target = cluster.mountPoint('a');
      await cluster.json('a', 'mount', 'd', target, '--data-path', 'fuse');
      await withEach([...cold, ...warmed], 4, async (name) => {
        assert.equal(await digestOf(join(target, name)), digests.get(name), name);
      });
      await cluster.json('a', 'umount', target);
    });
    console.log(
      `      limit ${Number(limit) / MiB} MiB, read ${(files * fileBytes) / MiB} MiB; peak ${Math.round(peak / MiB)} MiB, ` +
        `without page cache ${Math.round(anonymous / MiB)} MiB`,
    );
    assert.equal(killed, 0, 'nothing was ended for lack of memory (OOMKilled)');
    assert.ok(cluster.agent('a').running);
    assert.ok(anonymous < 0.8 * Number(limit), `${anonymous} bytes are not page cache`);
  });
});

function defaults(): StorageClusterSpec {
  const spec = { nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth', budget: '4Gi' }] }] };
  return (storageClusters.spec as z.ZodType<StorageClusterSpec>).parse(spec);
}

function defaultGroup() {
  const [group] = defaults().nodeGroups;
  assert.ok(group);
  return group;
}

/**
 * The use of memory while something is done. The kernel does not keep the most of what is not page cache, so it is looked
 * at again and again. Fails as soon as a process is ended for want of memory: whoever reads a mount then waits for an agent.
 */
async function watching(memory: MemoryGroup, work: () => Promise<void>): Promise<MemoryUse> {
  let anonymous = 0;
  let timer: NodeJS.Timeout | undefined;
  const ended = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      const use = memory.use();
      anonymous = Math.max(anonymous, use.anonymous);
      if (use.killed > 0) reject(new Error(`the agent was ended for want of memory; it had ${anonymous} bytes`));
    }, 100);
  });
  try {
    await Promise.race([work(), ended]);
    return { ...memory.use(), anonymous };
  } finally {
    clearInterval(timer);
  }
}

/** Several at once, each of which takes the next name. */
async function withEach(names: string[], width: number, work: (name: string) => Promise<void>): Promise<void> {
  const left = [...names];
  const one = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await work(name);
  };
  await Promise.all(Array.from({ length: width }, one));
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of createReadStream(path, { highWaterMark: MiB })) hash.update(part);
  return hash.digest('hex');
}
