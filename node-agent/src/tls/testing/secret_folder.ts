import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A folder updated like a mounted Secret: by one rename of the symlink `..data`. */
export class SecretFolder {
  readonly path: string;
  #count = 0;

  constructor(path: string, files: Record<string, string | Buffer>) {
    this.path = path;
    mkdirSync(path, { recursive: true });
    this.write(files);
    for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(path, name));
  }

  write(files: Record<string, string | Buffer>): void {
    const version = `..version-${++this.#count}`;
    mkdirSync(join(this.path, version));
    for (const [name, contents] of Object.entries(files)) writeFileSync(join(this.path, version, name), contents);
    symlinkSync(version, join(this.path, '..data_tmp'));
    renameSync(join(this.path, '..data_tmp'), join(this.path, '..data'));
    if (this.#count > 1) rmSync(join(this.path, `..version-${this.#count - 1}`), { recursive: true });
  }
}
