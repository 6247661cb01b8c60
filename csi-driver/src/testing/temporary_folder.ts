import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runChild } from '../mounts/child.ts';

/** A folder of a test's own; `remove` also unmounts what is mounted below it. */
export class TemporaryFolder {
  readonly path = realpathSync(mkdtempSync(join(tmpdir(), 'hearth-csi-')));

  file(...parts: string[]): string {
    return join(this.path, ...parts);
  }

  /** Mount points below it, the last mounted first, from the kernel's table alone. */
  mountPoints(): string[] {
    const points = readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .map((line) =>
        (line.split(' ')[4] ?? '').replace(/\\([0-7]{3})/g, (_, d) => String.fromCharCode(Number.parseInt(d, 8))),
      );
    return points.filter((point) => point.startsWith(`${this.path}/`)).reverse();
  }

  async remove(): Promise<void> {
    for (const point of this.mountPoints()) {
      await runChild('umount', ['--lazy', '--no-canonicalize', point], { deadlineMs: 300_000 });
    }
    rmSync(this.path, { recursive: true, force: true });
  }
}
