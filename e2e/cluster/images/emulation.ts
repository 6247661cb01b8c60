import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { must, ToolUnavailable } from '@hearth/common/testing';
import { type Architecture, ownArchitecture } from './buildah.ts';

const handlers = '/proc/sys/fs/binfmt_misc';
const processors: Record<Architecture, string> = { amd64: 'x86_64', arm64: 'aarch64' };

/**
 * Lets the kernel start programs of another processor through qemu, also in chroots, until disposed of. An emulation that the
 * kernel has already stays as it is. Needs root and the Debian package qemu-user-static.
 */
export async function emulation(architecture: Architecture): Promise<Disposable> {
  const name = `qemu-${processors[architecture]}`;
  if (architecture === ownArchitecture) return { [Symbol.dispose]() {} };
  if (!existsSync(`${handlers}/register`)) await must('mount', '-t', 'binfmt_misc', 'binfmt_misc', handlers);
  if (existsSync(`${handlers}/${name}`)) return { [Symbol.dispose]() {} };
  const rule = `/usr/lib/binfmt.d/${name}.conf`;
  if (!existsSync(rule))
    throw new ToolUnavailable('qemu-user-static is not installed; `make setup` as root installs it');
  writeFileSync(`${handlers}/register`, readFileSync(rule, 'utf8').trim());
  return { [Symbol.dispose]: () => writeFileSync(`${handlers}/${name}`, '-1') };
}
