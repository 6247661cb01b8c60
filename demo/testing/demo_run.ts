import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { node, root } from '../../scripts/test/command.ts';
import { missingForMounts } from '../privileges.ts';
import { detach, endProcess, RunDirectory } from '../run_directory.ts';

/** One run of `make run` as a process of its own. */
export interface DemoRun {
  child: ChildProcess;
  /** Its output so far, standard output and errors together. */
  output: () => string;
  ended: Promise<number | null>;
  /** Resolves when the output holds the text; rejects when the run ends before. */
  says: (text: string) => Promise<void>;
}

/** Runs over one run directory in `folder`. `close` ends what they have left: processes, mounts, the folder. */
export class DemoRuns {
  readonly folder: string;
  readonly #started: ChildProcess[] = [];

  constructor(folder = mkdtempSync(join(tmpdir(), 'hearth-run-'))) {
    this.folder = folder;
  }

  runDirectory(): RunDirectory {
    return new RunDirectory({ HEARTH_RUN_DIR: join(this.folder, 'run') });
  }

  /** `prefix`: a program and its words that run the demo. */
  start(environment: Record<string, string>, prefix: string[] = []): DemoRun {
    const [program = '', ...words] = [...prefix, node, join(root, 'demo/main.ts')];
    const env = { ...process.env, HEARTH_RUN_DIR: this.runDirectory().path, ...environment };
    const child = spawn(program, words, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#started.push(child);
    let text = '';
    const seen = new Set<() => void>();
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        text += chunk;
        for (const look of seen) look();
      });
    }
    const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
    const says = (wanted: string) =>
      new Promise<void>((resolve, reject) => {
        const look = () => text.includes(wanted) && resolve();
        seen.add(look);
        look();
        ended.then(() => reject(new Error(`the run ended without saying "${wanted}":\n${text}`)));
      });
    return { child, output: () => text, ended, says };
  }

  async close(): Promise<void> {
    for (const child of this.#started)
      if (child.pid !== undefined && child.exitCode === null) await endProcess(child.pid);
    const directory = this.runDirectory();
    await directory.claim(() => undefined);
    for (const target of directory.mountPoints()) await detach(target);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/**
 * One of two agents read from the origin the bytes that both cached together. A part of them may be read again where a machine
 * is so busy that an agent does not answer the other in time, or a transfer is hedged; all of it would be for each.
 */
export function assertReadOnce(output: string): void {
  const [, read, size] = /Read from the origin: (\d+\.\d) MiB of (\d+\.\d) MiB for 2 agents/.exec(output) ?? [];
  const times = Number(read) / Number(size);
  assert.ok(times >= 1 && times < 1.9, `the origin is not read once for two agents:\n${output}`);
}

/** Skips the test, with the reason, where mounts cannot be made. */
export function needMounts(context: Mocha.Context): void {
  const missing = missingForMounts().map(({ what }) => what);
  if (missing.length === 0) return;
  console.log(`      skipped: ${missing.join(' and ')} is missing`);
  context.skip();
}
