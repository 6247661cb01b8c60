import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { TemporaryFolder } from '@hearth/common/testing';
import { checkBinaries } from './client_binaries.ts';

const processors = { x86: 62, arm: 183 };

/** The beginning of an ELF file and a table of strings. */
function binary(machine: number, ...names: string[]): Buffer {
  const header = Buffer.alloc(64);
  header.write('\x7fELF', 'latin1');
  header.writeUInt16LE(machine, 18);
  return Buffer.concat([header, Buffer.from(`\0${names.join('\0')}\0`)]);
}

describe('the binaries of a release', () => {
  let folder: TemporaryFolder;
  beforeEach(() => {
    folder = new TemporaryFolder('binaries');
    writeFileSync(folder.file('libgd2fs.pc'), 'prefix=GLIBC_2.99');
  });
  afterEach(() => folder.remove());

  it('are for the processor that their name says', () => {
    mkdirSync(folder.file('lib'));
    writeFileSync(folder.file('lib/libgd2fs.so'), binary(processors.arm, 'GLIBC_2.17', 'GLIBC_2.35'));
    checkBinaries(folder.path, 'arm64');
    assert.throws(() => checkBinaries(folder.path, 'amd64'), /libgd2fs.so is for the processor 183, not amd64/);
  });

  it('need no newer C library than Ubuntu 22.04 has, and no C++ library', () => {
    for (const version of ['GLIBC_2.36', 'GLIBC_3.0', 'GLIBCXX_3.4', 'CXXABI_1.3']) {
      writeFileSync(folder.file('_native.so'), binary(processors.x86, 'GLIBC_2.2.5', version));
      assert.throws(() => checkBinaries(folder.path, 'amd64'), new RegExp(`_native.so needs ${version}`));
    }
  });

  it('are there', () => {
    assert.throws(() => checkBinaries(folder.path, 'amd64'), /has no binaries/);
  });
});
