// A release of this checkout in a folder (build/dist), as root: node e2e/release/main.ts [FOLDER]
//   kubectl-hearth, kubectl-hearth-PLATFORM   the plug-in of kubectl, as a script and as executables
//   hearth-VERSION.tgz                        the chart
//   hearth_storage-VERSION-*.whl              the Python packages, for amd64 and arm64
//   libgd2fs-VERSION-PLATFORM.tar.gz          the library for programs, with its header, for both
//   image                                     an OCI layout: the image, for amd64 and arm64
//   *.spdx.json                               what the images and the plug-in hold
//   SHA256SUMS                                of all these; image/index.json names the rest of the image by digests
// REGISTRY=HOST/PATH pushes image and chart there as well; REGISTRY_PLAIN=1: by http.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { output, root, ToolUnavailable } from '@hearth/common/testing';
import { writeChecksums } from '../../cli/executables/checksums.ts';
import { makeKubectlPrograms } from '../../cli/executables/programs.ts';
import { tools } from '../../scripts/tools/build.ts';
import { hearthVersion } from '../cluster/images/hearth_image.ts';
import { writeReleaseImage } from '../cluster/images/release_image.ts';
import { makeClientPackages } from './clients.ts';
import { publish } from './publish.ts';
import { writeImageBoms, writeProgramBom } from './sbom.ts';

const folder = process.argv[2] ?? join(root, 'build/dist');
const version = hearthVersion();

async function release(): Promise<void> {
  if (process.getuid?.() !== 0) throw new ToolUnavailable('Images need root.');
  const { helm = '', syft = '' } = await tools(['helm', 'syft']);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });

  const programs = await makeKubectlPrograms(folder);
  const clients = await makeClientPackages(version, folder);
  await output(helm, ['package', join(root, 'charts/hearth'), '--destination', folder]);
  const chart = join(folder, `hearth-${version}.tgz`);
  const layout = join(folder, 'image');
  const digest = await writeReleaseImage(layout);
  const boms = [...(await writeImageBoms(syft, layout, folder)), await writeProgramBom(version, folder)];
  await writeChecksums(folder, [...programs, ...clients, chart, join(layout, 'index.json'), ...boms]);
  console.log(`Hearth ${version} is in ${folder}; the image is ${digest}`);

  const { REGISTRY: registry, REGISTRY_PLAIN: plain } = process.env;
  if (!registry) return;
  const published = await publish({ layout, chart, version }, { registry, plain: plain === '1', helm });
  console.log(`Pushed ${published.image}\nPushed ${published.chart}`);
}

try {
  await release();
} catch (error) {
  if (!(error instanceof ToolUnavailable)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
