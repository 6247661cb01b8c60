import assert from 'node:assert/strict';
import { TemporaryFolder } from '@hearth/common/testing';
import type { Statistics } from '@hearth/engine';
import { withFreeSpace } from './free_space.ts';

describe('free space of cache directories', () => {
  const of = async (path: string, fileSystemFreeBytes: bigint) => {
    const directory = { path, budgetBytes: 1n, usedBytes: 0n, freeFloorBytes: 0n, fileSystemFreeBytes, failure: '' };
    const { directories } = await withFreeSpace({ directories: [directory] } as unknown as Statistics);
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
});
