import assert from 'node:assert/strict';
import { directoriesCapability } from './directories_capability.ts';

describe('cache directories as a capability', () => {
  const directory = (path: string, failure = '') => ({
    path,
    budgetBytes: 1n,
    usedBytes: 0n,
    freeFloorBytes: 0n,
    fileSystemFreeBytes: 1n,
    failure,
    waiting: [] as string[],
    waitingFiles: 0,
  });

  it('names those that take no new files', () => {
    assert.deepEqual(directoriesCapability([directory('/a'), directory('/b')]), {
      name: 'cache-directories',
      ready: true,
      reason: '',
    });
    assert.deepEqual(directoriesCapability([directory('/a'), directory('/b', 'Read-only file system')]), {
      name: 'cache-directories',
      ready: false,
      reason: '/b takes no new files: Read-only file system',
    });
  });

  it('names files for which programs wait', () => {
    const hanging = { ...directory('/b', 'a read hangs'), waiting: ['model:a', 'model:b'], waitingFiles: 5 };
    assert.equal(
      directoriesCapability([hanging]).reason,
      '/b takes no new files: a read hangs; programs that have these files open may wait: model:a, model:b and 3 others',
    );
  });
});
