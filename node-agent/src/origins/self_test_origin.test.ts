import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFile, mkdtemp, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ManifestRow } from '@hearth/engine';
import { makeSelfTest } from '../selftest/make.ts';
import { createOrigin } from './create_origin.ts';
import { listAll } from './testing/list_all.ts';

const source = {
  kind: { $case: 'selfTest' as const, value: {} },
  allowPrivate: false,
  unusableNames: '',
  allowWeakValidators: false,
};

describe('SelfTestOrigin', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-selftest-'));
    await makeSelfTest(join(folder, 'a'));
  });
  afterEach(async () => rm(folder, { recursive: true }));

  const open = (name = 'a') =>
    createOrigin(source, { selfTestDirectory: join(folder, name), allowedDirectories: [], environment: {} });
  const list = async (name = 'a'): Promise<ManifestRow[]> =>
    (await listAll(open(name))).sort((one, other) => (one.path < other.path ? -1 : 1));

  it('has files of every kind, equal wherever they are made', async () => {
    await makeSelfTest(join(folder, 'b'));
    const rows = await list();
    assert.deepEqual(await list('b'), rows);
    const files = rows.filter((row) => row.kind === 'file');
    assert.ok(files.length >= 64 && files.length < 80, `${files.length}`);
    assert.ok(files.every((row) => row.size <= 8n << 20n));
    for (const size of [0n, 8n << 20n]) assert.ok(files.some((row) => row.size === size));
    assert.deepEqual(
      files.filter((row) => row.executable).map((row) => row.path),
      ['bin/hello'],
    );
    assert.deepEqual(
      rows.filter((row) => row.kind !== 'file').map((row) => [row.kind, row.path, row.symlinkTarget]),
      [
        ['directory', 'empty', undefined],
        ['symlink', 'links/4096', '../sizes/4096'],
        ['symlink', 'links/folder', '../deep/a'],
      ],
    );
    assert.ok(files.every((row) => /^[0-9a-f]{64}$/.test(row.sourceDigest ?? '') && row.validator === undefined));
    assert.equal(new Set(files.filter((row) => row.size > 1n).map((row) => row.contentKey)).size > 60, true);
  });

  it('passes sha256sum, and compresses well', async () => {
    const checked = execFileSync('sha256sum', ['--check', '--strict', '--quiet', 'SHA256SUMS'], {
      cwd: join(folder, 'a'),
      encoding: 'utf8',
    });
    assert.equal(checked, '');
    const packed = execFileSync('sh', ['-c', 'tar c a | gzip -6 | wc -c'], { cwd: folder, encoding: 'utf8' });
    assert.ok(Number(packed) < 3 << 20, packed);
  });

  it('is readable in its folder, whatever directories are allowed', async () => {
    const origin = open();
    assert.deepEqual(origin.base(), { path: join(folder, 'a'), below: join(folder, 'a') });
    const entry = { index: 7, path: 'sizes/4096', contentKey: '', validator: '' };
    const signal = AbortSignal.timeout(300_000);
    const located = { entry: 7, path: join(folder, 'a', 'sizes/4096'), below: join(folder, 'a') };
    assert.deepEqual(await origin.locate([entry], signal), [located]);
    await origin.readByte(entry, signal);
  });

  it('reports when it is missing or incomplete', async () => {
    await assert.rejects(list('none'), {
      code: 'NotFound',
      message: /no built-in files at .*\/none .*selfTestDirectory/,
    });
    await appendFile(join(folder, 'a', 'sizes', '4096'), 'x');
    await assert.rejects(list(), { code: 'Corrupt', message: /sizes\/4096 has other bytes; install/ });
    await unlink(join(folder, 'a', 'sizes', '4096'));
    await assert.rejects(list(), { code: 'Corrupt', message: /sizes\/4096 is missing/ });
    await makeSelfTest(join(folder, 'c'));
    await writeFile(join(folder, 'c', 'another'), 'x');
    await assert.rejects(list('c'), { code: 'Corrupt', message: /another is not among them/ });
  });
});
