import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, uptime } from 'node:os';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { elapse } from '@hearth/common/testing';
import { openBootClock } from './boot_clock.ts';
import { TestBoot } from './testing/fixtures.ts';

describe('BootClock', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-boot-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("returns the kernel's time since boot in milliseconds, and the boot id", async () => {
    const clock = openBootClock();
    // Brackets each reading of the clock by two readings of another, because this thread may be preempted in between.
    const look = () => {
      const from = performance.now();
      const at = clock.now();
      return { from, at, to: performance.now() };
    };
    const [before, now, after] = [uptime(), clock.now(), uptime()];
    assert.ok(now > before * 1000 - 1_000 && now < after * 1000 + 1_000);
    const first = look();
    assert.match(clock.bootId, /^[0-9a-f-]{36}$/);
    await elapse(50, 'the time that is compared');
    const last = look();
    const passed = last.at - first.at;
    const precision = 25;
    assert.ok(passed >= last.from - first.to - precision && passed <= last.to - first.from + precision, `${passed} ms`);
  });

  it('ignores changes of the wall clock', () => {
    const clock = openBootClock();
    const real = Date.now;
    try {
      const before = clock.now();
      Date.now = () => real() + 86_400_000;
      assert.ok(clock.now() - before < 1_000);
    } finally {
      Date.now = real;
    }
  });

  it('names an unusable file', () => {
    const { files } = new TestBoot(folder);
    const refused = (words: RegExp) => (thrown: unknown) =>
      thrown instanceof HearthError && thrown.code === 'Unsupported' && words.test(thrown.message);
    assert.throws(() => openBootClock({ ...files, uptime: join(folder, 'none') }), refused(/none for its clock/));
    writeFileSync(files.uptime, 'soon\n');
    assert.throws(() => openBootClock(files), refused(/uptime does not begin with a number/));
    writeFileSync(files.uptime, '1.00 1.00\n');
    writeFileSync(files.bootId, '\n');
    assert.throws(() => openBootClock(files), refused(/boot_id is empty/));
  });
});
