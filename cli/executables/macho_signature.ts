import { createHash } from 'node:crypto';

/** Load commands of <mach-o/loader.h>. */
const segment64 = 0x19;
const codeSignature = 0x1d;
const headerBytes = 32;
const commandBytes = 16;
const segmentPageBytes = 0x4000;

/** Numbers of <kern/cs_blobs.h>, all of them written big-endian. */
const embeddedSignature = 0xfade0cc0;
const codeDirectory = 0xfade0c02;
const withExecutableSegment = 0x20400;
const isAdHoc = 0x2;
const sha256Type = 2;
const mainBinary = 1n;
const superBlobBytes = 20;
const directoryBytes = 88;
const hashedBytes = 4096;
const hashBytes = 32;

/**
 * Gives an executable of macOS an ad-hoc signature, as `codesign --sign -` does: SHA-256 of every 4096 bytes, no certificate, no
 * entitlements. The kernel of Apple silicon starts nothing unsigned. `file` is an unsigned Mach-O file for one 64-bit processor
 * whose last segment is __LINKEDIT; `identifier` is ASCII.
 */
export function signAdHoc(file: Buffer, identifier: string): Buffer {
  const { end, text, linkEdit } = loadCommands(file);
  const codeBytes = Math.ceil(file.length / 16) * 16;
  const pages = Math.ceil(codeBytes / hashedBytes);
  const hashesAt = directoryBytes + identifier.length + 1;
  const blobBytes = superBlobBytes + hashesAt + pages * hashBytes;
  const signed = Buffer.alloc(codeBytes + blobBytes);
  file.copy(signed);

  // Headers are hashed, too, so they say where the signature is before anything is hashed.
  for (const [index, value] of [codeSignature, commandBytes, codeBytes, blobBytes].entries()) {
    signed.writeUInt32LE(value, end + 4 * index);
  }
  signed.writeUInt32LE(file.readUInt32LE(16) + 1, 16);
  signed.writeUInt32LE(file.readUInt32LE(20) + commandBytes, 20);
  const linkEditBytes = BigInt(signed.length) - file.readBigUInt64LE(linkEdit + 40);
  const page = BigInt(segmentPageBytes);
  signed.writeBigUInt64LE(((linkEditBytes + page - 1n) / page) * page, linkEdit + 32);
  signed.writeBigUInt64LE(linkEditBytes, linkEdit + 48);

  let at = codeBytes;
  const number = (...values: number[]) => {
    for (const value of values) at = signed.writeUInt32BE(value, at);
  };
  const long = (...values: bigint[]) => {
    for (const value of values) at = signed.writeBigUInt64BE(value, at);
  };
  // One blob, of slot 0, follows this header.
  number(embeddedSignature, blobBytes, 1, 0, superBlobBytes);
  number(codeDirectory, blobBytes - superBlobBytes, withExecutableSegment, isAdHoc);
  number(hashesAt, directoryBytes, 0, pages, codeBytes);
  at = signed.writeUInt32BE((hashBytes << 24) | (sha256Type << 16) | Math.log2(hashedBytes), at);
  // No scatter, no team, no 64-bit limit.
  number(0, 0, 0, 0);
  long(0n, signed.readBigUInt64LE(text + 40), signed.readBigUInt64LE(text + 48), mainBinary);
  at += signed.write(`${identifier}\0`, at, 'ascii');
  for (let page = 0; page < pages; page += 1) {
    const bytes = signed.subarray(page * hashedBytes, Math.min((page + 1) * hashedBytes, codeBytes));
    at += createHash('sha256').update(bytes).digest().copy(signed, at);
  }
  return signed;
}

/** Offsets of the two segments that a signature names or changes, and of the room behind the last command. */
function loadCommands(file: Buffer): { end: number; text: number; linkEdit: number } {
  if (file.readUInt32LE(0) !== 0xfeedfacf) throw new Error('not a Mach-O file for one 64-bit processor');
  const segments: Record<string, number> = {};
  let end = headerBytes;
  for (let left = file.readUInt32LE(16); left > 0; left -= 1) {
    const kind = file.readUInt32LE(end);
    if (kind === codeSignature) throw new Error('it has a signature already');
    if (kind === segment64) segments[file.toString('ascii', end + 8, end + 24).replace(/\0+$/, '')] = end;
    end += file.readUInt32LE(end + 4);
  }
  const { __TEXT: text, __LINKEDIT: linkEdit } = segments;
  if (text === undefined || linkEdit === undefined) throw new Error('no segment __TEXT or __LINKEDIT');
  const linkEditEnd = file.readBigUInt64LE(linkEdit + 40) + file.readBigUInt64LE(linkEdit + 48);
  if (linkEditEnd !== BigInt(file.length)) throw new Error('__LINKEDIT does not end the file');
  // Linkers leave room for more commands, filled with zeros.
  if (file.subarray(end, end + commandBytes).some((byte) => byte !== 0)) throw new Error('no room for a load command');
  return { end, text, linkEdit };
}
