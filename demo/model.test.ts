import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateModel } from './generated_model.ts';
import { nameOf } from './model.ts';

const mebibyte = 1024 ** 2;

describe('the model of make run', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-model-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('is generated with headers that fit its tensors', async () => {
    await generateModel(join(folder, 'model'), 40 * mebibyte);
    const bytes = readFileSync(join(folder, 'model/model-00001-of-00001.safetensors'));
    const length = Number(bytes.readBigUInt64LE());
    assert.equal(length % 8, 0);
    const header: Record<string, { dtype: string; shape: number[]; data_offsets: number[] }> = JSON.parse(
      bytes.toString('utf8', 8, 8 + length),
    );
    let at = 0;
    for (const { dtype, shape, data_offsets } of Object.values(header)) {
      assert.equal(dtype, 'F32');
      assert.deepEqual(data_offsets, [at, at + 4 * (shape[0] ?? 0)]);
      at = data_offsets[1] ?? 0;
    }
    assert.equal(at, 40 * mebibyte);
    assert.equal(bytes.length, 8 + length + at);
  });

  it('is the same each time', async () => {
    const digests = [];
    for (const name of ['one', 'other']) {
      await generateModel(join(folder, name), 3 * mebibyte);
      const hash = createHash('sha256');
      for (const file of readdirSync(join(folder, name)).sort()) hash.update(readFileSync(join(folder, name, file)));
      digests.push(hash.digest('hex'));
    }
    assert.equal(digests[0], digests[1]);
  });

  it('gives its dataset the name of the source', () => {
    const names = {
      '/models/Llama 3/': 'llama',
      'hf://sentence-transformers/all-MiniLM-L6-v2@main': 'all-minilm-l6-v2',
      's3://bucket/weights?endpoint=https://s3.example.com&region=eu': 'weights',
      'https://example.com/a/model.safetensors https://example.com/b': 'model.safetensors',
      './': 'dataset',
    };
    for (const [source, name] of Object.entries(names)) assert.equal(nameOf(source), name);
  });
});
