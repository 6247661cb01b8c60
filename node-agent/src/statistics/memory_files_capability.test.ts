import assert from 'node:assert/strict';
import { noMemoryFiles } from '../testing/fake_statistics.ts';
import { memoryFilesCapability } from './memory_files_capability.ts';

describe('memoryFilesCapability', () => {
  const budgetBytes = 64n << 30n;

  it('is none without a budget', () => {
    assert.deepEqual(memoryFilesCapability(noMemoryFiles), []);
  });

  it('says why an agent with a budget has none', () => {
    assert.deepEqual(memoryFilesCapability({ ...noMemoryFiles, budgetBytes, off: 'no mount holder is configured' }), [
      { name: 'memory files', ready: false, reason: 'no mount holder is configured' },
    ]);
  });

  it('names the budget and the pages', () => {
    const files = { ...noMemoryFiles, budgetBytes, off: '' };
    assert.equal(memoryFilesCapability(files)[0]?.reason, '64GiB, huge pages where a file is large enough');
    const small = memoryFilesCapability({ ...files, noHugePages: 'the kernel has none for tmpfs' });
    assert.equal(small[0]?.reason, '64GiB, no huge pages: the kernel has none for tmpfs');
  });

  it('says why the last file could not be brought', () => {
    const [found] = memoryFilesCapability({ ...noMemoryFiles, budgetBytes, off: '', failure: 'memory has no room' });
    assert.match(found?.reason ?? '', /; the last file stayed on the disk: memory has no room$/);
  });
});
