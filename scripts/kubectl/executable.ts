import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/** Platforms as the npm packages of Node name them. macOS takes the script: its executables need a signature of Apple's tools. */
export const platforms = ['linux-x64', 'linux-arm64', 'win-x64'] as const;
export type Platform = (typeof platforms)[number];

/** Marks the place in Node's executable that says whether a program is inside (Node's documentation of single executables). */
const fuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** Puts a script into a copy of Node for a platform. Node comes from npm, in the version that the checkout pins. */
export async function makeExecutable(script: string, platform: Platform, folder: string): Promise<string> {
  const suffix = platform.startsWith('win') ? '.exe' : '';
  const file = join(folder, `kubectl-hearth-${platform}${suffix}`);
  const work = mkdtempSync(join(tmpdir(), 'hearth-sea-'));
  try {
    const output = join(work, 'program.blob');
    const isOurs = platform === `${process.platform}-${process.arch}`;
    // Code that V8 has compiled is of one processor; it starts faster with it.
    const config = { main: script, output, disableExperimentalSEAWarning: true, useCodeCache: isOurs };
    writeFileSync(join(work, 'sea.json'), JSON.stringify(config));
    execFileSync(process.execPath, ['--experimental-sea-config', join(work, 'sea.json')], { stdio: 'pipe' });
    copyFileSync(nodeOf(platform, isOurs), file);
    chmodSync(file, 0o755);
    const postject = join(root, 'node_modules/postject/dist/cli.js');
    execFileSync(process.execPath, [postject, file, 'NODE_SEA_BLOB', output, '--sentinel-fuse', fuse], {
      stdio: 'pipe',
    });
    return file;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function nodeOf(platform: Platform, isOurs: boolean): string {
  if (isOurs) return process.execPath;
  const { version } = JSON.parse(readFileSync(join(root, 'node_modules/node/package.json'), 'utf8')) as {
    version: string;
  };
  const folder = join(root, 'build/node', `${platform}-${version}`);
  const program = join(folder, 'package/bin', platform.startsWith('win') ? 'node.exe' : 'node');
  if (existsSync(program)) return program;
  mkdirSync(folder, { recursive: true });
  const archive = execFileSync(
    'npm',
    ['pack', '--silent', '--pack-destination', folder, `node-${platform}@${version}`],
    { encoding: 'utf8' },
  );
  execFileSync('tar', ['-xzf', join(folder, archive.trim()), '-C', folder]);
  return program;
}
