import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';

const shardBytes = 256 * 1024 ** 2;
const tensorBytes = 16 * 1024 ** 2;
const blockWords = 256 * 1024;

/**
 * A folder of safetensors that look like a model's: valid headers, F32 tensors of 16 MiB and bytes that no file
 * system compresses. Equal arguments give equal bytes. Format: https://github.com/huggingface/safetensors
 */
export async function generateModel(directory: string, totalBytes: number): Promise<void> {
  if (existsSync(directory)) return;
  const partial = `${directory}.part`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  const shards = Math.ceil(totalBytes / shardBytes);
  const number = (value: number) => String(value).padStart(5, '0');
  for (let shard = 0; shard < shards; shard += 1) {
    const bytes = Math.min(shardBytes, totalBytes - shard * shardBytes);
    const path = join(partial, `model-${number(shard + 1)}-of-${number(shards)}.safetensors`);
    await writeShard(path, bytes, shard);
  }
  writeFileSync(join(partial, 'config.json'), `${JSON.stringify({ model_type: 'generated', shards }, null, 2)}\n`);
  renameSync(partial, directory);
}

/** Tensors of `bytes` in all, behind a header of 8 bytes of length and JSON padded with spaces to 8 bytes. */
async function writeShard(path: string, bytes: number, shard: number): Promise<void> {
  const tensors: Record<string, unknown> = {};
  for (let begin = 0; begin < bytes; begin += tensorBytes) {
    const end = Math.min(begin + tensorBytes, bytes);
    const name = `layers.${shard}.${begin / tensorBytes}.weight`;
    tensors[name] = { dtype: 'F32', shape: [(end - begin) / 4], data_offsets: [begin, end] };
  }
  const text = JSON.stringify(tensors);
  const header = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8, ' '));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const file = await open(path, 'w');
  try {
    await file.write(Buffer.concat([length, header]));
    const words = new Uint32Array(blockWords);
    let state = 0x9e3779b9 ^ (shard + 1);
    for (let written = 0; written < bytes; ) {
      for (let index = 0; index < words.length; index += 1) {
        // xorshift32 (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        words[index] = state;
      }
      const block = Buffer.from(words.buffer).subarray(0, Math.min(words.byteLength, bytes - written));
      await file.write(block);
      written += block.length;
    }
  } finally {
    await file.close();
  }
}
