import { randomFillSync } from 'node:crypto';
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const piece = 4 * 2 ** 20;

/** Files of random bytes, `bytes` in all, fsynced; their names are `part-0` and so on. */
export function makeFiles(folder: string, count: number, bytes: number): string[] {
  mkdirSync(folder, { recursive: true });
  const buffer = Buffer.allocUnsafe(piece);
  const size = Math.floor(bytes / count);
  return Array.from({ length: count }, (_, index) => {
    const path = join(folder, `part-${index}`);
    const file = openSync(path, 'w');
    for (let at = 0; at < size; at += piece) {
      randomFillSync(buffer);
      writeSync(file, buffer, 0, Math.min(piece, size - at));
    }
    fsyncSync(file);
    closeSync(file);
    return path;
  });
}

/** The same as safetensors files of random tensors, each of 8 MiB, by their names; a header comes to the bytes. */
export function makeSafetensors(folder: string, count: number, bytes: number): string[] {
  mkdirSync(folder, { recursive: true });
  const tensor = Buffer.allocUnsafe(2 * piece);
  const tensors = Math.floor(bytes / count / tensor.length);
  return Array.from({ length: count }, (_, index) => {
    const path = join(folder, `model-${index}.safetensors`);
    const header: Record<string, object> = {};
    for (let at = 0; at < tensors; ++at) {
      const offsets = [at * tensor.length, (at + 1) * tensor.length];
      // As 16-bit integers: no bit pattern of them is slow to add.
      header[`layer${index}.${at}`] = { dtype: 'I16', shape: [tensor.length / 2], data_offsets: offsets };
    }
    const text = Buffer.from(JSON.stringify(header));
    const padding = Buffer.alloc((8 - (text.length % 8)) % 8, ' ');
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length + padding.length));
    const file = openSync(path, 'w');
    writeSync(file, Buffer.concat([length, text, padding]));
    for (let at = 0; at < tensors; ++at) writeSync(file, randomFillSync(tensor));
    fsyncSync(file);
    closeSync(file);
    return path;
  });
}

export function makeSmallFiles(folder: string, count: number, bytes: number): void {
  mkdirSync(folder, { recursive: true });
  const content = Buffer.allocUnsafe(bytes);
  for (let index = 0; index < count; ++index) {
    randomFillSync(content);
    writeFileSync(join(folder, `file-${String(index).padStart(6, '0')}`), content);
  }
}

/** The same with `perFolder` in a folder each, the last of which may have fewer. */
export function makeSmallFilesInFolders(folder: string, count: number, perFolder: number, bytes: number): void {
  for (let made = 0; made < count; made += perFolder) {
    const inner = join(folder, `folder-${String(made / perFolder).padStart(4, '0')}`);
    makeSmallFiles(inner, Math.min(perFolder, count - made), bytes);
  }
}

/** `count` entries in folders of `perFolder`: hard links, because a million inodes take long to make. */
export function makeEntries(folder: string, count: number, perFolder: number): void {
  for (let made = 0; made < count; ) {
    const inner = join(folder, `folder-${String(made / perFolder).padStart(4, '0')}`);
    mkdirSync(inner, { recursive: true });
    const first = join(inner, 'entry-0000');
    writeFileSync(first, inner);
    for (let index = 1; index < Math.min(perFolder, count - made); ++index) {
      linkSync(first, join(inner, `entry-${String(index).padStart(4, '0')}`));
    }
    made += perFolder;
  }
}
