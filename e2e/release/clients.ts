import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output, root } from '@hearth/common/testing';

/**
 * Writes into a folder what programs install: the wheel, and libgd2fs with its header and its file for pkg-config. Both
 * need of the system only the C library. The paths of the files.
 */
export async function makeClientPackages(version: string, folder: string): Promise<string[]> {
  await output(join(root, 'scripts/build-wheel.sh'), []);
  const wheels = readdirSync(join(root, 'build/wheels')).filter((name) => name.endsWith('.whl'));
  for (const name of wheels) cpSync(join(root, 'build/wheels', name), join(folder, name));
  return [...wheels.map((name) => join(folder, name)), await packLibrary(version, folder)];
}

/** Of the build of the wheel. */
async function packLibrary(version: string, folder: string): Promise<string> {
  const name = `libgd2fs-${version}-linux-${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const staging = mkdtempSync(join(tmpdir(), 'hearth-release-'));
  try {
    const prefix = join(staging, name);
    mkdirSync(prefix);
    await output('cmake', ['--install', join(root, 'build/python'), '--component', 'gd2fs', '--prefix', prefix]);
    cpSync(join(root, 'LICENSE'), join(prefix, 'LICENSE'));
    const archive = join(folder, `${name}.tar.gz`);
    await output('tar', ['--create', '--gzip', '--file', archive, '--directory', staging, name]);
    return archive;
  } finally {
    rmSync(staging, { recursive: true });
  }
}
