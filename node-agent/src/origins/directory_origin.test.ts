import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { directoryKey } from './content_key.ts';
import { DirectoryCalls } from './directory_calls.ts';
import { DirectoryOrigin } from './directory_origin.ts';
import type { ManifestRow } from './origin.ts';
import { listAll } from './testing/list_all.ts';

describe('DirectoryOrigin', () => {
  const calls = new DirectoryCalls();
  let root = '';

  after(() => calls.close());

  function open(options: { path?: string; unusableNames?: string; allowed?: string[] } = {}): DirectoryOrigin {
    return new DirectoryOrigin({ path: root, unusableNames: 'Fail', allowed: undefined, calls, ...options });
  }

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'hearth-directory-'));
  });
  afterEach(() => {
    rmSync(root, { recursive: true, force: true });
  });

  it('lists files, links, empty folders and times', async () => {
    mkdirSync(join(root, 'a/b'), { recursive: true });
    mkdirSync(join(root, 'empty/also'), { recursive: true });
    writeFileSync(join(root, 'a/b/weights.bin'), 'hello');
    writeFileSync(join(root, 'run ä%2F.sh'), '#!', { mode: 0o755 });
    symlinkSync('../outside', join(root, 'a/link'));
    symlinkSync('/etc', join(root, 'a/folder'));
    utimesSync(join(root, 'a/b/weights.bin'), 1700000000, 1700000000);
    const rows = await listAll(open());
    assert.deepEqual(
      rows.map((row) => [row.path, row.kind]),
      [
        ['a/b/weights.bin', 'file'],
        ['a/folder', 'symlink'],
        ['a/link', 'symlink'],
        ['empty/also', 'directory'],
        ['run ä%2F.sh', 'file'],
      ],
    );
    const [weights, folder, link, , script] = rows as [ManifestRow, ManifestRow, ManifestRow, ManifestRow, ManifestRow];
    const stats = statSync(join(root, 'a/b/weights.bin'), { bigint: true });
    assert.deepEqual(weights, {
      path: 'a/b/weights.bin',
      kind: 'file',
      size: 5n,
      contentKey: directoryKey(join(root, 'a/b/weights.bin'), stats.mtimeNs, stats.ctimeNs, 5n),
      validator: `stat:1700000000000000000:${stats.ctimeNs}:${stats.ino}:${stats.nlink}:${stats.mode & 0o7777n}:${stats.uid}:${stats.gid}`,
      executable: false,
      modifiedAtNs: 1700000000000000000n,
    });
    assert.equal(script.executable, true);
    assert.equal(link.symlinkTarget, '../outside');
    assert.equal(folder.symlinkTarget, '/etc');
    assert.deepEqual(open().revision(), { name: '', warnings: [] });
  });

  it('changes the key of a file only when the file is written', async () => {
    writeFileSync(join(root, 'x'), 'one');
    const [before] = await listAll(open());
    const [again] = await listAll(open());
    writeFileSync(join(root, 'x'), 'two');
    const [after] = await listAll(open());
    assert.equal(again?.contentKey, before?.contentKey);
    assert.notEqual(after?.contentKey, before?.contentKey);
  });

  it('locates by a base path', async () => {
    const origin = open();
    assert.deepEqual(await origin.base(), { path: root, below: root });
    assert.deepEqual(await origin.locate([{ index: 7, path: 'a/b', contentKey: '', validator: '' }]), [
      { entry: 7, path: join(root, 'a/b'), below: root },
    ]);
  });

  it('refuses, or skips on request, names that are not UTF-8 and files without content', async () => {
    writeFileSync(join(root, 'good'), '1');
    writeFileSync(Buffer.concat([Buffer.from(`${root}/bad`), Buffer.from([0xff, 0x41])]), '1');
    symlinkSync(Buffer.from([0xfe]) as unknown as string, join(root, 'dangling'));
    execFileSync('mkfifo', [join(root, 'pipe')]);
    const server = createServer().listen(join(root, 'socket'));
    try {
      await assert.rejects(listAll(open()), (error: { code: string; message: string }) => {
        assert.equal(error.code, 'InvalidArgument');
        assert.match(error.message, /4 names .*bad\\xffA: not UTF-8/);
        assert.match(error.message, /pipe: a FIFO/);
        assert.match(error.message, /socket: a socket/);
        assert.match(error.message, /dangling: .*not UTF-8/);
        return true;
      });
      const skipping = open({ unusableNames: 'Skip' });
      assert.deepEqual(
        (await listAll(skipping)).map((row) => row.path),
        ['good'],
      );
      assert.match(skipping.revision().warnings[0] ?? '', /^UnusableNames: 4 left out: /);
    } finally {
      server.close();
    }
  });

  it('names the fault of the directory', async () => {
    writeFileSync(join(root, 'file'), '');
    await assert.rejects(listAll(open({ path: join(root, 'none') })), {
      code: 'NotFound',
      message: /none does not exist on this node/,
    });
    await assert.rejects(listAll(open({ path: join(root, 'file') })), {
      code: 'InvalidArgument',
      message: /is not a directory/,
    });
    assert.throws(() => open({ path: 'relative' }), { code: 'InvalidArgument', message: /absolute/ });
  });

  it('names an unreadable file', async function () {
    const user = process.getuid?.();
    if (user !== 0 || process.seteuid === undefined) {
      console.log('        skipped: only root can become another user to try this');
      return this.skip();
    }
    chmodSync(root, 0o755);
    mkdirSync(join(root, 'closed'), { mode: 0o700 });
    try {
      process.seteuid(65534);
      await assert.rejects(listAll(open()), { code: 'PermissionDenied', message: /closed may not be read \(EACCES\)/ });
      process.seteuid(0);
      rmSync(join(root, 'closed'), { recursive: true });
      writeFileSync(join(root, 'secret'), 'x', { mode: 0o600 });
      process.seteuid(65534);
      await assert.rejects(listAll(open()), { code: 'PermissionDenied', message: /secret may not be read/ });
    } finally {
      process.seteuid(0);
    }
  });

  it('names the file when files vanish during the listing', async () => {
    for (let i = 0; i < 1500; i++) writeFileSync(join(root, `f${i}`), '');
    const pages = open().list(AbortSignal.timeout(300_000));
    await pages.next();
    for (let i = 0; i < 1500; i++) rmSync(join(root, `f${i}`));
    await assert.rejects(
      async () => {
        for await (const _ of pages);
      },
      { code: 'OriginChanged', message: /f\d+ vanished while/ },
    );
  });

  it('must lie below the allowed directories, with symbolic links resolved', async () => {
    mkdirSync(join(root, 'allowed/x'), { recursive: true });
    mkdirSync(join(root, 'allowed-not'));
    symlinkSync(join(root, 'allowed-not'), join(root, 'allowed/escape'));
    const allowed = [join(root, 'allowed')];
    assert.deepEqual(await listAll(open({ path: join(root, 'allowed/x'), allowed })), []);
    for (const path of ['allowed-not', 'allowed/escape', 'allowed/x/../../allowed-not']) {
      const origin = open({ path: `${root}/${path}`, allowed });
      await assert.rejects(listAll(origin), { code: 'PermissionDenied', message: /allowed/ }, path);
      await assert.rejects(Promise.resolve(origin.base()), { code: 'PermissionDenied' });
    }
    symlinkSync(join(root, 'allowed'), join(root, 'also'));
    symlinkSync('x', join(root, 'allowed/y'));
    for (const path of ['allowed/x', 'allowed/y', 'also/y']) {
      const origin = open({ path: join(root, path), allowed: [join(root, 'allowed'), join(root, 'also')] });
      assert.deepEqual(
        await origin.base(),
        { path: join(root, 'allowed/x'), below: join(root, 'allowed') },
        'without links',
      );
    }
    assert.deepEqual(await listAll(open({ path: join(root, 'also/x'), allowed: [join(root, 'also')] })), []);
    await assert.rejects(listAll(open({ path: join(root, 'allowed/x'), allowed: [] })), {
      code: 'PermissionDenied',
      message: /none is/,
    });
  });

  it('ends when it is cancelled', async () => {
    writeFileSync(join(root, 'x'), '');
    await assert.rejects(listAll(open(), AbortSignal.abort()), { code: 'Cancelled' });
  });

  it('lists 100,000 files in pages', async () => {
    for (let folder = 0; folder < 50; folder++) {
      mkdirSync(join(root, `d${folder}`));
      writeFileSync(join(root, `d${folder}`, 'seed'), '');
      for (let file = 0; file < 1999; file++) {
        linkSync(join(root, `d${folder}`, 'seed'), join(root, `d${folder}`, String(file)));
      }
    }
    const began = performance.now();
    let files = 0;
    for await (const page of open().list(AbortSignal.timeout(300_000))) {
      assert.ok(page.length <= 1000);
      files += page.length;
    }
    assert.equal(files, 100_000);
    console.log(`        ${((performance.now() - began) / 1000).toFixed(1)} s`);
  });
});
