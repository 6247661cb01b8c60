import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { detachBelow } from './mounts.ts';

/** A temporary folder of one test. */
export class TemporaryFolder {
  readonly path: string;

  /** `purpose`: a word in the folder's name. */
  constructor(purpose: string) {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), `hearth-${purpose}-`)));
  }

  file(...parts: string[]): string {
    return join(this.path, ...parts);
  }

  /** Also unmounts everything mounted below the folder. */
  async remove(): Promise<void> {
    await detachBelow(this.path);
    rmSync(this.path, { recursive: true, force: true });
  }
}
