import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Context } from 'mocha';
import { MountedRead, missingForMounts } from './mounted_read.ts';

const stages = ['loaded', 'opening', 'failed', 'idle', 'warming', 'pending', 'reading'];

/** How a process ends, and what its parent must see. */
const ends: Record<string, { code: number | null; signal: NodeJS.Signals | null }> = {
  close: { code: 0, signal: null },
  exit: { code: 0, signal: null },
  throw: { code: 1, signal: null },
  signal: { code: null, signal: 'SIGTERM' },
  terminate: { code: 0, signal: null },
};

describe('the addon in a process that ends', () => {
  let folder: string;

  before(function (this: Context) {
    const addon = process.env.HEARTH_ADDON ?? join(import.meta.dirname, '../../../build/release/binding/hearth.node');
    if (existsSync(addon)) return;
    console.log(`    skipped: ${addon} is not built; run \`make build\``);
    this.skip();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-life-'));
    mkdirSync(join(folder, 'cache'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  for (const stage of stages) {
    it(`when ${stage}: closed, by exit, by an error, by SIGTERM, as a worker that is terminated`, async function () {
      const missing = stage === 'reading' ? missingForMounts() : undefined;
      if (missing !== undefined) {
        console.log(`      skipped: ${missing}`);
        this.skip();
      }
      const ways = Object.entries(ends).filter(([end]) => stage !== 'opening' || end !== 'close');
      for (const [end, expected] of ways) {
        const { output, ...seen } = stage === 'reading' ? await liveMounted(end) : await live(stage, end);
        assert.deepEqual(seen, expected, `${stage}, ${end}: ${output}`);
        assert.match(output, /reached/);
      }
    });
  }

  /**
   * With a read of a mount in flight: it neither fails with the engine, since the next one answers it, nor outlives
   * the holder.
   */
  async function liveMounted(end: string) {
    const mounted = await MountedRead.start(folder);
    try {
      const [outcome] = await Promise.all([live('reading', end), mounted.begin()]);
      assert.ok(mounted.waits, `the read has ended before the process, by ${end}`);
      return outcome;
    } finally {
      await mounted.end();
    }
  }

  async function live(stage: string, end: string) {
    const child = spawn(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'life_stages.ts'), stage, end, folder],
      { stdio: ['ignore', 'pipe', 'pipe'], timeout: 300_000, killSignal: 'SIGKILL' },
    );
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
      });
    }
    return await new Promise<{ code: number | null; signal: NodeJS.Signals | null; output: string }>(
      (resolve, reject) => {
        child.once('error', reject);
        child.once('close', (code, signal) => resolve({ code, signal, output }));
      },
    );
  }
});
