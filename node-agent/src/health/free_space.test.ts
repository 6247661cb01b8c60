import assert from 'node:assert/strict';
import { TemporaryFolder, TestClock } from '@hearth/common/testing';
import type { Statistics } from '@hearth/engine';
import { FreeSpace } from './free_space.ts';

describe('free space of cache directories', () => {
  const of = async (path: string, fileSystemFreeBytes: bigint, space = new FreeSpace()) => {
    const directory = { path, fileSystemFreeBytes };
    const { directories } = await space.replaceIn({ directories: [directory] } as unknown as Statistics);
    return directories[0]?.fileSystemFreeBytes;
  };

  it("is the file system's current value, also before the engine has measured", async () => {
    const folder = new TemporaryFolder('free-space');
    try {
      assert.ok(((await of(folder.path, 0n)) ?? 0n) > 0n);
    } finally {
      await folder.remove();
    }
  });

  it("is the engine's value when the directory cannot be measured", async () => {
    assert.equal(await of('/nowhere/at/all', 7n), 7n);
  });

  it("is the engine's value while the disk hangs, which is asked once", async () => {
    const clock = new TestClock();
    const asked: ((bytes: bigint) => void)[] = [];
    const space = new FreeSpace(clock, () => new Promise((resolve) => asked.push(resolve)));
    const first = of('/cache', 7n, space);
    assert.equal(await of('/cache', 8n, space), 8n);
    await clock.advance(1_000);
    assert.equal(await first, 7n);
    assert.equal(asked.length, 1);
    asked[0]?.(9n);
    await new Promise(setImmediate);
    const again = of('/cache', 7n, space);
    assert.equal(asked.length, 2);
    asked[1]?.(9n);
    assert.equal(await again, 9n);
  });
});
