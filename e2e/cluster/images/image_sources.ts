import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { must } from '@hearth/common/testing';

const inputs = [
  ...['Dockerfile', '.dockerignore', 'package.json', 'package-lock.json', 'proto'],
  ...['scripts/generate-constants.ts', 'scripts/generate-protocols.ts', 'scripts/image'],
];
const rooms = ['common', 'native', 'node-agent', 'cli', 'csi-driver', 'operator'];

/**
 * A copy of all files that the Dockerfile may copy, as they were in the working tree, so that what is built is what the
 * digest names, whatever is written meanwhile. Disposing of it removes it.
 */
export class ImageSources implements Disposable {
  readonly folder: string;
  /** 12 hexadecimal digits of the SHA-256 of names, modes and bytes. */
  readonly digest: string;

  private constructor(folder: string, digest: string) {
    this.folder = folder;
    this.digest = digest;
  }

  /** `folder` is replaced. */
  static async copy(root: string, folder: string): Promise<ImageSources> {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const listed = await must('git', '-C', root, 'ls-files', '-z', '-co', '--exclude-standard', ...inputs, ...rooms);
    const hash = createHash('sha256');
    for (const path of listed.split('\0').filter((name) => name !== '' && !/\.(test\.ts|md)$/.test(name))) {
      const file = join(root, path);
      if (!existsSync(file)) continue;
      const { mode } = statSync(file);
      const bytes = readFileSync(file);
      hash.update(`${path}\0${mode}\0`).update(bytes);
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), bytes);
      // The umask has no say in it.
      chmodSync(join(folder, path), mode & 0o7777);
    }
    return new ImageSources(folder, hash.digest('hex').slice(0, 12));
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
