import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Architecture } from '../cluster/images/buildah.ts';

/** Of Ubuntu 22.04. */
const newestGlibc = [2, 35] as const;
/** e_machine of elf(5). */
const machines: Record<Architecture, number> = { amd64: 62, arm64: 183 };

/** Throws unless the ELF files at and below a folder are for that processor and need only the C library of Ubuntu 22.04. */
export function checkBinaries(folder: string, architecture: Architecture): void {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const binaries = files
    .map((entry) => ({ name: entry.name, bytes: readFileSync(join(entry.parentPath, entry.name)) }))
    .filter(({ bytes }) => bytes.subarray(0, 4).toString('latin1') === '\x7fELF');
  if (binaries.length === 0) throw new Error(`${folder} has no binaries`);
  for (const { name, bytes } of binaries) {
    const machine = bytes.readUInt16LE(18);
    if (machine !== machines[architecture])
      throw new Error(`${name} is for the processor ${machine}, not ${architecture}`);
    for (const version of symbolVersions(bytes)) {
      const [, major = 0, minor = 0] = /^GLIBC_(\d+)\.(\d+)/.exec(version)?.map(Number) ?? [];
      const newer = major > newestGlibc[0] || (major === newestGlibc[0] && minor > newestGlibc[1]);
      if (major === 0 || newer) throw new Error(`${name} needs ${version}`);
    }
  }
}

/** Of symbols of the C and C++ libraries, from the table of strings. */
function symbolVersions(binary: Buffer): string[] {
  return binary.toString('latin1').match(/(?<=\0)(GLIBC_\d+\.\d+|GLIBCXX_|CXXABI_)[\d.]*(?=\0)/g) ?? [];
}
