import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { run } from './command.ts';

/**
 * A file system in memory for what an origin serves, so that the disk under the cache is the only disk that a row measures.
 * Dropping the page cache leaves it as it is.
 */
export class Tmpfs {
  readonly path: string;
  readonly #detach = (): void => {
    spawnSync('umount', ['--lazy', this.path]);
  };

  private constructor(path: string) {
    this.path = path;
  }

  /** Mounts it at a folder that it makes. It takes as much memory as is in it, and never more than `bytes`. */
  static async mount(path: string, bytes: number): Promise<Tmpfs> {
    mkdirSync(path, { recursive: true });
    await run('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=0755`, 'hearth-bench', path]);
    const mounted = new Tmpfs(path);
    process.once('exit', mounted.#detach);
    return mounted;
  }

  /** After the programs that use it have ended; what is in it goes. */
  async remove(): Promise<void> {
    process.off('exit', this.#detach);
    await run('umount', ['--lazy', this.path]);
  }
}
