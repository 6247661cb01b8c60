import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output, root } from '@hearth/common/testing';
import { type Architecture, ownArchitecture } from '../cluster/images/buildah.ts';
import { checkBinaries } from './client_binaries.ts';

/**
 * Writes into a folder what programs install, for both processors: the wheels, and libgd2fs with its header and its file for
 * pkg-config. All of it needs of the system only the C library. The paths of the files.
 */
export async function makeClientPackages(version: string, folder: string): Promise<string[]> {
  const made: string[] = [];
  for (const architecture of ['amd64', 'arm64'] as const) {
    // An hour, as all of it may have to be compiled.
    await output(join(root, 'scripts/build-wheel.sh'), [architecture], { timeoutMs: 60 * 60_000 });
    const suffix = architecture === ownArchitecture ? '' : `-${architecture}`;
    const wheels = join(root, `build/wheels${suffix}`);
    for (const name of readdirSync(wheels).filter((one) => one.endsWith('.whl'))) {
      await checkWheel(join(wheels, name), architecture);
      cpSync(join(wheels, name), join(folder, name));
      made.push(join(folder, name));
    }
    made.push(await packLibrary({ version, architecture, build: join(root, `build/python${suffix}`) }, folder));
  }
  return made;
}

async function checkWheel(wheel: string, architecture: Architecture): Promise<void> {
  const unpacked = mkdtempSync(join(tmpdir(), 'hearth-release-'));
  try {
    await output('python3', ['-m', 'zipfile', '-e', wheel, unpacked]);
    checkBinaries(unpacked, architecture);
  } finally {
    rmSync(unpacked, { recursive: true });
  }
}

/** Of the build of the wheel. */
async function packLibrary(
  library: { version: string; architecture: Architecture; build: string },
  folder: string,
): Promise<string> {
  const name = `libgd2fs-${library.version}-linux-${library.architecture}`;
  const staging = mkdtempSync(join(tmpdir(), 'hearth-release-'));
  try {
    const prefix = join(staging, name);
    mkdirSync(prefix);
    await output('cmake', ['--install', library.build, '--component', 'gd2fs', '--prefix', prefix]);
    checkBinaries(prefix, library.architecture);
    cpSync(join(root, 'LICENSE'), join(prefix, 'LICENSE'));
    const archive = join(folder, `${name}.tar.gz`);
    await output('tar', ['--create', '--gzip', '--file', archive, '--directory', staging, name]);
    return archive;
  } finally {
    rmSync(staging, { recursive: true });
  }
}
