import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SourceFile } from './passages.ts';

const root = join(import.meta.dirname, '../..');

/** What is written by hand, in either language, as git knows it: product code and tests. */
export function sources(): SourceFile[] {
  const listed = execFileSync('git', ['ls-files', '*.ts', '*.h', '*.cc'], { cwd: root, encoding: 'utf8' });
  return listed
    .trim()
    .split('\n')
    .filter((path) => !path.includes('/generated/') && existsSync(join(root, path)))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}
