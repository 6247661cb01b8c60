import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { detachBelow } from './mounts.ts';

/** A folder of a test's own. */
export class TemporaryFolder {
  readonly path: string;

  /** `purpose`: a word of its name. */
  constructor(purpose: string) {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), `hearth-${purpose}-`)));
  }

  file(...parts: string[]): string {
    return join(this.path, ...parts);
  }

  /** Also unmounts what is mounted below it. */
  async remove(): Promise<void> {
    await detachBelow(this.path);
    rmSync(this.path, { recursive: true, force: true });
  }
}
