import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@hearth/common';
import { TestClock, until } from '@hearth/common/testing';
import type { CacheDirectory } from '../config/index.ts';
import { budgetProbe } from './budget_probe.ts';
import { CacheCheck } from './cache_check.ts';
import { CacheWatch } from './cache_watch.ts';

const MiB = 1n << 20n;

describe('cache directories', () => {
  let folder: string;
  let size: bigint;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-cache-'));
    const { blocks, bsize } = await statfs(folder, { bigint: true });
    size = blocks * bsize;
  });
  after(async () => rm(folder, { recursive: true }));

  const directory = (fields: Partial<CacheDirectory> = {}): CacheDirectory => ({
    path: join(folder, 'cache'),
    budget: { bytes: 64n * MiB },
    freeFloor: { bytes: 0n },
    ...fields,
  });
  async function check(one: CacheDirectory, kubelet?: string) {
    const checked = new CacheCheck({ cache: { directories: [one] }, kubelet: { directory: kubelet } });
    await checked.prepare();
    return (await checked.run()).directories;
  }

  it('are created and measured', async () => {
    const half = { basisPoints: 5000 };
    const [measured] = await check(directory({ path: join(folder, 'deep', 'er'), freeFloor: half }));
    assert.equal(measured?.budgetBytes, 64n * MiB);
    assert.equal(measured.freeFloorBytes, size / 2n);
  });

  it('do not fail for one that cannot be used', async () => {
    await writeFile(join(folder, 'no-folder'), '');
    const bad = join(folder, 'no-folder', 'x');
    const checked = new CacheCheck({
      cache: { directories: [directory({ path: bad }), directory()] },
      kubelet: { directory: undefined },
    });
    await checked.prepare();
    const { directories, failures } = await checked.run();
    assert.deepEqual(
      directories.map(({ path, budgetBytes }) => [path, budgetBytes]),
      [
        [bad, 0n],
        [join(folder, 'cache'), 64n * MiB],
      ],
    );
    assert.deepEqual(
      failures.map(({ path }) => path),
      [bad],
    );
  });

  it('are refused when they cannot be created or are too small', async () => {
    await writeFile(join(folder, 'file'), '');
    await assert.rejects(check(directory({ path: join(folder, 'file', 'x') })), {
      code: 'PermissionDenied',
      message: /file\/x of the cache cannot be created/,
    });
    await assert.rejects(check(directory({ budget: { bytes: MiB } })), {
      code: 'OutOfSpace',
      message: /too small: its budget is 1 MiB; give it at least 16 MiB/,
    });
    await assert.rejects(check(directory({ freeFloor: { bytes: size } })), {
      code: 'OutOfSpace',
      message: /too small: its file system has .* of which .* must stay free/,
    });
  });

  it('leave the kubelet its room, on its own file system only', async () => {
    const floors = { enough: { basisPoints: 2000 }, little: { basisPoints: 1999 } };
    await check(directory({ freeFloor: floors.enough }), folder);
    await assert.rejects(check(directory({ freeFloor: floors.little }), folder), {
      code: 'InvalidArgument',
      message: /is on the file system of the kubelet, .*; set freeFloor to 20%, or use another disk/,
    });
    await check(directory({ freeFloor: floors.little }), '/proc');
    await assert.rejects(check(directory(), join(folder, 'absent')), { message: /cannot read kubelet\.directory / });
  });

  it('have budgets that fit on their disk, together', async () => {
    assert.equal((await budgetProbe([directory()])).status, 'ok');
    const large = await budgetProbe([directory({ budget: { bytes: size }, freeFloor: { bytes: 8n * MiB } })]);
    assert.equal(large.status, 'degraded');
    assert.match(large.detail, new RegExp(`only .* \\(${size - 8n * MiB} bytes\\) are available`));
    const half = { budget: { basisPoints: 6000 } };
    const two = [directory(half), directory({ ...half, path: join(folder, 'other') })];
    assert.match((await budgetProbe(two)).detail, /budget of .*cache and .*other is /);
  });

  it('are checked periodically, and each change is reported once', async () => {
    const path = join(folder, 'watched');
    await mkdir(path);
    const reported: (string | undefined)[] = [];
    const checked = new CacheCheck({
      cache: { directories: [directory({ path })] },
      kubelet: { directory: undefined },
    });
    const clock = new TestClock();
    const refused = async () => [];
    const watch = new CacheWatch(checked, refused, 30_000, silentLogger, (reason) => reported.push(reason), clock);
    await rm(path, { recursive: true });
    await clock.advance(29_000);
    assert.deepEqual(reported, []);
    await clock.advance(1_000);
    await until(() => reported.length === 1);
    assert.match(reported[0] ?? '', /watched cannot be used \(ENOENT/);
    await mkdir(path);
    await until(async () => {
      await clock.advance(30_000);
      return reported.length === 2;
    });
    assert.equal(reported[1], undefined);
    watch.close();
  });
});
