import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ReadingProof } from '../datasets/reading_proof.ts';
import { directoryKey } from './content_key.ts';
import { createOrigin } from './create_origin.ts';
import { DirectoryCalls } from './directory_calls.ts';
import { leavesTree } from './directory_links.ts';
import { statValidator } from './directory_tree.ts';
import type { ManifestRow, Origin } from './origin.ts';
import { parseSource } from './source.ts';
import { listAll } from './testing/list_all.ts';

const signal = () => AbortSignal.timeout(60_000);

describe('links of directories', () => {
  const calls = new DirectoryCalls();
  let root = '';
  let snapshot = '';

  after(() => calls.close());
  /** A hub cache, where every file of a snapshot is a link to a blob. */
  beforeEach(() => {
    root = realpathSync(mkdtempSync(join(tmpdir(), 'hearth-links-')));
    snapshot = join(root, 'models--o--m/snapshots/abc');
    mkdirSync(join(snapshot, 'sub'), { recursive: true });
    mkdirSync(join(root, 'models--o--m/blobs'));
    write('models--o--m/blobs/1', 'weights');
    write('models--o--m/blobs/2', 'config');
    link('../../blobs/1', 'model.safetensors');
    link('../../../blobs/2', 'sub/config.json');
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const write = (path: string, text: string) => writeFileSync(join(root, path), text);
  const link = (target: string, path: string) => symlinkSync(target, join(snapshot, path));

  function open(allowedDirectories?: string[], revision = '', path = snapshot): Origin {
    const more = allowedDirectories === undefined ? {} : { allowedDirectories };
    return createOrigin(parseSource(path), { directoryCalls: calls, revision, ...more });
  }

  const entriesOf = (rows: ManifestRow[]) =>
    rows.map(({ path, contentKey = '', validator = '', size }, index) => ({
      index,
      path,
      contentKey,
      validator,
      size,
    }));

  it('out of the tree become the files behind them, where allowed', async () => {
    for (const allowed of [undefined, [root], [snapshot, join(root, 'models--o--m/blobs')]]) {
      const origin = open(allowed);
      const rows = await listAll(origin);
      assert.deepEqual(
        rows.map(({ path, kind, size }) => [path, kind, size]),
        [
          ['model.safetensors', 'file', 7n],
          ['sub/config.json', 'file', 6n],
        ],
      );
      const blob = join(root, 'models--o--m/blobs/1');
      const { mtimeNs, ctimeNs } = statSync(blob, { bigint: true });
      assert.equal(rows[0]?.contentKey, directoryKey(blob, mtimeNs, ctimeNs, 7n));
      assert.equal(rows[0]?.validator, statValidator(statSync(blob, { bigint: true })));
      assert.deepEqual(origin.revision().warnings, []);
      const proof = new ReadingProof(origin);
      proof.note(rows);
      await proof.read(signal());
      // Another agent, which has not listed.
      const other = open(allowed, origin.revision().name);
      assert.equal(other.base(), undefined);
      const locations = await other.locate(entriesOf(rows), signal());
      assert.equal(locations[0]?.path, blob);
      assert.ok(blob.startsWith(locations[0]?.below ?? 'none'));
    }
  });

  it('out of the tree name the folder to allow', async () => {
    const blobs = join(root, 'models--o--m/blobs');
    await assert.rejects(listAll(open([snapshot])), (thrown: { code: string; message: string }) => {
      assert.equal(thrown.code, 'PermissionDenied');
      assert.match(thrown.message, /has only files behind symbolic links .*: (model|sub)\S+ leads to /);
      assert.ok(thrown.message.includes(`add ${blobs} to origins.directoryPrefixes`));
      return true;
    });
    writeFileSync(join(snapshot, 'README.md'), '#');
    const origin = open([snapshot]);
    const rows = await listAll(origin);
    assert.deepEqual(
      rows.map(({ path, kind }) => [path, kind]),
      [
        ['README.md', 'file'],
        ['model.safetensors', 'symlink'],
        ['sub/config.json', 'symlink'],
      ],
    );
    assert.match(origin.revision().warnings.join(), /^Links: 2 symbolic links lead out .* leads to /);
    assert.notEqual(open([snapshot], origin.revision().name).base(), undefined, 'none was followed');
  });

  it('with absolute targets are followed, and links inside the tree are kept', async () => {
    link(join(root, 'models--o--m/blobs/1'), 'absolute');
    link('model.safetensors', 'alias');
    const rows = await listAll(open([root]));
    const kinds = new Map(rows.map(({ path, kind }) => [path, kind]));
    assert.equal(kinds.get('absolute'), 'file');
    assert.equal(kinds.get('alias'), 'symlink');
  });

  it('to folders become the files in them, following further links', async () => {
    mkdirSync(join(root, 'disk/parts/empty'), { recursive: true });
    mkdirSync(join(root, 'disk/more'));
    write('disk/parts/1', 'one');
    write('disk/more/2', 'two');
    symlinkSync('1', join(root, 'disk/parts/alias'));
    symlinkSync('../more', join(root, 'disk/parts/more'));
    symlinkSync('../more/2', join(root, 'disk/parts/two'));
    link(join(root, 'disk/parts'), 'parts');
    link('../../../disk/parts/empty', 'empty');
    for (const allowed of [[root], [snapshot, join(root, 'models--o--m'), join(root, 'disk')]]) {
      const origin = open(allowed);
      const rows = await listAll(origin);
      assert.deepEqual(
        rows.map(({ path, kind }) => `${path} ${kind}`),
        [
          'empty directory',
          'model.safetensors file',
          'parts/1 file',
          'parts/alias symlink',
          'parts/empty directory',
          'parts/more/2 file',
          'parts/two file',
          'sub/config.json file',
        ],
      );
      assert.deepEqual(origin.revision().warnings, []);
      const proof = new ReadingProof(origin);
      proof.note(rows);
      await proof.read(signal());
      const files = entriesOf(rows).filter((_, index) => rows[index]?.kind === 'file');
      const places = await open(allowed, origin.revision().name).locate(files, signal());
      assert.equal(places[2]?.path, join(root, 'disk/more/2'));
    }
    const origin = open([snapshot, join(root, 'models--o--m')]);
    assert.ok((await listAll(origin)).some(({ path, kind }) => path === 'parts' && kind === 'symlink'));
    assert.match(
      origin.revision().warnings.join(),
      /Links: 2 .*(parts|empty) leads to .*not below an allowed directory/,
    );
  });

  it('to folders that form loops end', async () => {
    mkdirSync(join(root, 'one'));
    mkdirSync(join(root, 'two'));
    symlinkSync('../two', join(root, 'one/next'));
    symlinkSync('../one', join(root, 'two/next'));
    write('one/1', '1');
    write('two/2', '2');
    link('../../../one', 'one');
    const origin = open([root]);
    const found = (await listAll(origin)).map(({ path, kind }) => `${path} ${kind}`);
    assert.deepEqual(
      found.filter((line) => line.startsWith('one')),
      ['one/1 file', 'one/next/2 file', 'one/next/next symlink'],
    );
    assert.match(origin.revision().warnings.join(), /Links: 1 .*one\/next\/next leads in a circle/);
    rmSync(join(snapshot, 'one'));
    for (let at = 0; at < 12; at++) {
      mkdirSync(join(root, `chain${at}`));
      symlinkSync(join(root, `chain${at + 1}`), join(root, `chain${at}/on`));
    }
    mkdirSync(join(root, 'chain12'));
    link(join(root, 'chain0'), 'chain');
    const long = open([root]);
    await listAll(long);
    assert.match(long.revision().warnings.join(), /chain(\/on){8} leads to a folder behind more than 8 other links/);
  });

  it('to folders of devices are refused by name', async () => {
    link('/dev', 'devices');
    await assert.rejects(listAll(open([root, '/dev'])), { code: 'InvalidArgument', message: /devices\/\S+/ });
  });

  it('that dangle, loop, or lead to devices or unbounded folders are kept with a warning', async () => {
    const targets = ['/nowhere', join(snapshot, 'd'), '/dev', '/dev/null'];
    for (const [index, name] of ['a', 'd', 'e', 'f'].entries()) {
      link(targets[index] ?? '', name);
      const origin = open();
      const rows = await listAll(origin);
      assert.equal(rows.find(({ path }) => path === name)?.kind, 'symlink');
      const why = [/a leads to nothing/, /d leads in a circle/, /e leads to a folder/, /f leads to no regular file/];
      assert.match(origin.revision().warnings.join(), why[index] ?? /none/);
      rmSync(join(snapshot, name));
    }
  });

  it('that change after the listing are never read outside allowed directories', async () => {
    const origin = open([join(root, 'models--o--m')]);
    const rows = await listAll(origin);
    rmSync(join(snapshot, 'model.safetensors'));
    write('secret', 'weights');
    link('../../../secret', 'model.safetensors');
    const locations = await origin.locate(entriesOf(rows), signal());
    assert.deepEqual(
      locations.map(({ entry }) => entry),
      [1],
    );
  });

  it('inside the tree are detected from their text', () => {
    for (const [path, target] of [
      ['a', '../x'],
      ['a/b', '../../x'],
      ['a', '/x'],
      ['a', 'b/../../x'],
    ] as const)
      assert.ok(leavesTree(path, target), target);
    for (const [path, target] of [
      ['a', 'x'],
      ['a/b', '../x'],
      ['a/b', '..'],
      ['a', '..x'],
    ] as const)
      assert.ok(!leavesTree(path, target), target);
  });
});
