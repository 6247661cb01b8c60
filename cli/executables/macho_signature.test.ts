import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { signAdHoc } from './macho_signature.ts';

const textBytes = 16384;

/** A Mach-O file with two segments and room for one more command behind theirs. */
function unsigned(linkEditBytes: number): Buffer {
  const file = Buffer.alloc(textBytes + linkEditBytes, 7);
  file.fill(0, 0, 4096);
  file.writeUInt32LE(0xfeedfacf, 0);
  file.writeUInt32LE(2, 16);
  file.writeUInt32LE(2 * 72, 20);
  const segments = [
    ['__TEXT', 0, textBytes],
    ['__LINKEDIT', textBytes, linkEditBytes],
  ] as const;
  for (const [index, [name, offset, bytes]] of segments.entries()) {
    const at = 32 + 72 * index;
    file.writeUInt32LE(0x19, at);
    file.writeUInt32LE(72, at + 4);
    file.write(name, at + 8, 'ascii');
    file.writeBigUInt64LE(BigInt(offset), at + 40);
    file.writeBigUInt64LE(BigInt(bytes), at + 48);
  }
  return file;
}

describe('the ad-hoc signature of an executable of macOS', () => {
  const file = unsigned(5001);
  const signed = signAdHoc(file, 'kubectl-hearth');

  it('is named by the last load command, and ends the file and its last segment', () => {
    assert.equal(signed.readUInt32LE(16), 3);
    assert.equal(signed.readUInt32LE(20), 2 * 72 + 16);
    const [kind, bytes, offset = 0, size = 0] = [0, 4, 8, 12].map((at) => signed.readUInt32LE(32 + 2 * 72 + at));
    assert.deepEqual([kind, bytes], [0x1d, 16]);
    assert.equal(offset % 16, 0);
    assert.ok(offset - file.length >= 0 && offset - file.length < 16);
    assert.equal(offset + size, signed.length);
    const linkEdit = 32 + 72;
    assert.equal(Number(signed.readBigUInt64LE(linkEdit + 48)), signed.length - textBytes);
    assert.equal(Number(signed.readBigUInt64LE(linkEdit + 32)) % 16384, 0);
  });

  it('hashes every page before it, the header among them', () => {
    const at = signed.readUInt32LE(32 + 2 * 72 + 8);
    assert.equal(signed.readUInt32BE(at), 0xfade0cc0);
    const directory = signed.subarray(at + signed.readUInt32BE(at + 16));
    assert.equal(directory.readUInt32BE(0), 0xfade0c02);
    assert.equal(directory.length, directory.readUInt32BE(4));
    const [hashesAt = 0, nameAt = 0, special, pages = 0, limit] = [16, 20, 24, 28, 32].map((one) =>
      directory.readUInt32BE(one),
    );
    assert.equal(directory.toString('ascii', nameAt, hashesAt), 'kubectl-hearth\0');
    assert.deepEqual([special, pages, limit], [0, Math.ceil(at / 4096), at]);
    assert.deepEqual([...directory.subarray(36, 40)], [32, 2, 0, 12]);
    for (let page = 0; page < pages; page += 1) {
      const hash = createHash('sha256').update(signed.subarray(page * 4096, Math.min((page + 1) * 4096, at)));
      assert.deepEqual(directory.subarray(hashesAt + 32 * page, hashesAt + 32 * (page + 1)), hash.digest());
    }
    assert.equal(hashesAt + 32 * pages, directory.length);
  });

  it('is refused where one is, and where there is no room for its command', () => {
    assert.throws(() => signAdHoc(signed, 'kubectl-hearth'), /has a signature already/);
    const full = unsigned(16);
    full[32 + 2 * 72] = 1;
    assert.throws(() => signAdHoc(full, 'kubectl-hearth'), /no room for a load command/);
    assert.throws(() => signAdHoc(Buffer.from('\x7fELF, and so on'), 'kubectl-hearth'), /not a Mach-O file/);
  });
});
