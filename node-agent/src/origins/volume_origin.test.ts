import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import type { ManifestRow } from '@hearth/engine';
import { FakePublishedFiles } from '../testing/fake_published_files.ts';
import { createOrigin } from './create_origin.ts';
import type { Origin } from './origin.ts';
import { parseSource } from './source.ts';
import type { PublishedVolumes } from './volume_origin.ts';

const id = '0123456789abcdef0123456789abcdef';
const { signal } = new AbortController();

class Volumes implements PublishedVolumes {
  readonly files = new FakePublishedFiles();
  id = id;
  readonly deleted = new Set<string>();
  readonly engine = {
    lookUpInVolume: async (_id: string, path: string) => this.files.lookUp(path),
    listVolumeFolder: async (_id: string, folder: bigint, after: bigint) => this.files.list(folder, after),
    volumeContents: async (_id: string, inodes: readonly bigint[]) => this.files.contents(inodes),
  };
  async open(): Promise<string> {
    if (this.id === '') throw new HearthError('NotFound', 'there is no volume kv');
    return this.id;
  }
  isDeleted(one: string): boolean {
    return this.deleted.has(one);
  }
}

describe('VolumeOrigin', () => {
  let volumes: Volumes;
  const at = (text: string, unusableNames = 'Fail'): Origin =>
    createOrigin({ ...parseSource(text), unusableNames }, { volumes });

  beforeEach(() => {
    volumes = new Volumes();
    volumes.files.put('models/a/w.safetensors', 'weights', { node: 'trainer' });
    volumes.files.put('models/a/run.sh', 'run', { mode: 0o755 });
    volumes.files.put('models/a/empty/later', '');
    volumes.files.link('models/a/latest', 'w.safetensors');
    volumes.files.put('models/b', 'other');
  });

  it('lists what is below its path by the content keys of the volume', async () => {
    volumes.files.remove('models/a/empty/later');
    const rows = await rowsOf(at('volume://kv/models/a'));
    const { inode } = volumes.files.lookUp('models/a/w.safetensors');
    const weights = rows.find(({ path }) => path === 'w.safetensors');
    assert.equal(weights?.validator, `volume:${id}:${inode}`);
    assert.equal(weights?.contentKey, volumes.files.contents([inode])[0]?.contentKey);
    const seen = rows.map(({ path, kind, size, executable = false }) => [path, kind, size, executable]);
    assert.deepEqual(seen.sort(), [
      ['empty', 'directory', 0n, false],
      ['latest', 'symlink', 0n, false],
      ['run.sh', 'file', 3n, true],
      ['w.safetensors', 'file', 7n, false],
    ]);
  });

  it('takes a file as its source', async () => {
    const [row, ...rest] = await rowsOf(at('volume://kv/models/a/w.safetensors'));
    assert.deepEqual([row?.path, row?.size, rest.length], ['w.safetensors', 7n, 0]);
    await assert.rejects(rowsOf(at('volume://kv/models/a/latest')), { code: 'InvalidArgument' });
    await assert.rejects(rowsOf(at('volume://kv/none')), { code: 'NotFound' });
  });

  it('refuses a state that no moment had', async () => {
    let calls = 0;
    volumes.files.onList = () => {
      if (++calls === 3) volumes.files.put('models/a/run.sh', 'changed');
    };
    await assert.rejects(rowsOf(at('volume://kv/models')), {
      code: 'Unavailable',
      message: /written while it was listed/,
    });
    volumes.files.onList = () => {};
    assert.equal((await rowsOf(at('volume://kv/models'))).filter(({ kind }) => kind === 'file').length, 4);
  });

  it('names the node of each file whose content the volume still has', async () => {
    const origin = at('volume://kv/models/a');
    const rows = (await rowsOf(origin)).filter(({ kind, size }) => kind === 'file' && size > 0n);
    const entries = rows.map(({ path, contentKey = '', validator = '' }, index) => ({
      index,
      path,
      contentKey,
      validator,
    }));
    assert.deepEqual(
      await origin.locate(entries, signal),
      [
        { entry: entries.findIndex(({ path }) => path === 'w.safetensors'), node: 'trainer' },
        { entry: entries.findIndex(({ path }) => path === 'run.sh'), node: 'a' },
      ].sort((a, b) => a.entry - b.entry),
    );
    volumes.files.put('models/a/w.safetensors', 'weights');
    assert.equal((await origin.locate(entries, signal)).length, 1);
    assert.equal(origin.lackingError?.code, 'OriginChanged');
    const replaced = entries.find(({ path }) => path === 'w.safetensors');
    assert.ok(replaced);
    await assert.rejects(origin.readByte(replaced, signal), {
      code: 'OriginChanged',
      message: /w\.safetensors: volume kv/,
    });
  });

  it('has nothing once its volume was deleted, and waits for one that the store has lost', async () => {
    const origin = at('volume://kv/models/b');
    const [row] = await rowsOf(origin);
    const entries = [{ index: 1, path: 'b', contentKey: row?.contentKey ?? '', validator: row?.validator ?? '' }];
    volumes.id = '';
    await assert.rejects(origin.locate(entries, signal), { code: 'Unavailable' });
    volumes.deleted.add(id);
    assert.deepEqual(await origin.locate(entries, signal), []);
    // Another volume of the name.
    volumes.deleted.clear();
    volumes.id = 'ffffffffffffffffffffffffffffffff';
    assert.deepEqual(await origin.locate(entries, signal), []);
  });

  it('leaves out names that no dataset can have, when it is told to', async () => {
    volumes.files.makeFifo('models/a/pipe');
    volumes.files.put('models/a/\xff', 'x');
    await assert.rejects(rowsOf(at('volume://kv/models/a')), { code: 'InvalidArgument', message: /pipe: a FIFO/ });
    const origin = at('volume://kv/models/a', 'Skip');
    const paths = (await rowsOf(origin)).map(({ path }) => path);
    assert.ok(!paths.includes('pipe') && !paths.some((path) => path.includes('\0')));
    assert.match(origin.revision().warnings.join(), /2 left out: .*\\xff: it is not UTF-8/);
  });

  it('needs a running agent', () => {
    assert.throws(() => createOrigin(parseSource('volume://kv'), {}), { code: 'Unsupported' });
  });
});

async function rowsOf(origin: Origin): Promise<ManifestRow[]> {
  const rows: ManifestRow[] = [];
  for await (const page of origin.list(signal)) rows.push(...page);
  return rows;
}
