import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { output, root } from '@hearth/common/testing';
import { readBlob, readIndex } from '../cluster/images/oci_layout.ts';
import { copyImage } from '../cluster/images/release_image.ts';

/** Writes what each image of an OCI layout holds (Debian's packages, npm's, Node) as SPDX, one file for each processor. */
export async function writeImageBoms(syft: string, layout: string, folder: string): Promise<string[]> {
  const made: string[] = [];
  const [index] = readIndex(layout).manifests;
  const { manifests } = readBlob(layout, index?.digest ?? '');
  const version = index?.annotations?.['org.opencontainers.image.ref.name'] ?? '';
  for (const { architecture } of manifests.map((one: { platform: { architecture: string } }) => one.platform)) {
    const work = mkdtempSync(join(tmpdir(), 'hearth-sbom-'));
    try {
      // syft reads layouts of one image.
      await copyImage(`oci:${layout}:${version}`, `oci:${work}:one`, `--override-arch=${architecture}`);
      const file = join(folder, `hearth-${version}-image-${architecture}.spdx.json`);
      const name = ['--source-name', 'hearth', '--source-version', version];
      await output(syft, ['scan', `oci-dir:${work}`, ...name, '--output', `spdx-json=${file}`], {
        environment: { SYFT_CHECK_FOR_APP_UPDATE: 'false' },
        timeoutMs: 30 * 60_000,
      });
      made.push(file);
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
  }
  return made;
}

/** Writes the npm packages that `kubectl hearth` may hold as SPDX; the bundle leaves out what it never calls. */
export async function writeProgramBom(version: string, folder: string): Promise<string> {
  const words = ['sbom', '--prefix', root, '--workspace', 'cli', '--omit', 'dev', '--sbom-format', 'spdx'];
  const file = join(folder, `kubectl-hearth-${version}.spdx.json`);
  writeFileSync(file, await output('npm', words));
  return file;
}
