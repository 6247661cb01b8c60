import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { output, root } from '@hearth/common/testing';
import { cacheFolder } from '../../../scripts/tools/cache.ts';
import { lock } from '../../../scripts/tools/lock.ts';
import { ensureBaseImages, ensureForeignBaseImages, nodeVersion } from './base_images.ts';
import { buildSettings } from './build_settings.ts';
import { type Architecture, Buildah, ownArchitecture } from './buildah.ts';
import { emulation } from './emulation.ts';
import { hearthImage, hearthVersion } from './hearth_image.ts';
import { ImageSources } from './image_sources.ts';
import { joinPlatforms } from './oci_layout.ts';

const architectures: Architecture[] = ['amd64', 'arm64'];
const storeLimitBytes = 8 * 2 ** 30;

/**
 * Writes the image of this checkout for every processor as one OCI image index into a folder that does not exist yet, and
 * gives its digest. Compilers run on this machine's processor, programs of the other image through qemu. Needs root.
 */
export async function writeReleaseImage(layout: string): Promise<string> {
  for (const architecture of architectures) {
    if (architecture === ownArchitecture) await writeOwn(layout, architecture);
    else await writeForeign(layout, architecture);
  }
  return joinPlatforms(layout, hearthVersion());
}

async function writeOwn(layout: string, reference: string): Promise<void> {
  const { archive } = await hearthImage();
  await copyImage(`docker-archive:${archive}`, `oci:${layout}:${reference}`);
}

async function writeForeign(layout: string, architecture: Architecture): Promise<void> {
  const folder = join(cacheFolder, 'release-image');
  mkdirSync(folder, { recursive: true });
  await using _ = await lock(join(folder, '.lock'));
  using sources = await ImageSources.copy(root, join(folder, 'sources'));
  using _emulation = await emulation(architecture);
  console.error(`building the image for ${architecture} (an hour the first time)`);
  const store = new Buildah(folder);
  await store.tidy(storeLimitBytes);
  await ensureBaseImages(store);
  const { debian, node } = await ensureForeignBaseImages(store, architecture);
  const image = `localhost/hearth-${architecture}`;
  await store.build(sources.folder, image, {
    args: {
      ...{ NODE_VERSION: nodeVersion(), DEBIAN_IMAGE: debian, NODE_IMAGE: node },
      // As the Dockerfile names them, which are of this machine in the store.
      ...{ BUILD_DEBIAN_IMAGE: 'debian:bookworm-slim', BUILD_NODE_IMAGE: `node:${nodeVersion()}-bookworm-slim` },
    },
    volumes: buildSettings(folder),
    architecture,
  });
  await store.saveLayout(image, layout, architecture);
}

/** Copies an image between places that skopeo(1) names. Without --all it takes the image of this machine's processor. */
export async function copyImage(from: string, to: string, ...options: string[]): Promise<void> {
  await output('skopeo', ['copy', '--quiet', ...options, from, to], { timeoutMs: 30 * 60_000 });
}
