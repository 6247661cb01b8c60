import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { must } from '@hearth/common/testing';
import { type Architecture, ownArchitecture } from './buildah.ts';

export interface ImageContents {
  /** `REPOSITORY:TAG` */
  name: string;
  /** Path in the image -> path of an executable here. */
  programs: Record<string, string>;
  /** Path in the image -> a folder here, copied with everything below it. */
  folders?: Record<string, string>;
  /** Path in the image -> what it points to. */
  links?: Record<string, string>;
  entrypoint: string[];
  environment?: string[];
  /** The processor of its programs, when it is not this machine's. */
  architecture?: Architecture;
}

/**
 * Writes a docker-archive of one layer, without any daemon: the layer's tar, the configuration and manifest.json (OCI
 * image specification, config.md; the archive's layout is Docker's image specification 1.2). Equal contents give an
 * equal file.
 */
export async function writeImage(path: string, contents: ImageContents): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  const folder = mkdtempSync(`${path}.`);
  try {
    const tree = join(folder, 'tree');
    for (const directory of ['etc', 'tmp', 'proc', 'sys', 'dev']) mkdirSync(join(tree, directory), { recursive: true });
    for (const [target, source] of Object.entries(contents.programs)) {
      mkdirSync(dirname(join(tree, target)), { recursive: true });
      copyFileSync(source, join(tree, target));
      await must('chmod', '755', join(tree, target));
    }
    for (const [target, source] of Object.entries(contents.folders ?? {})) {
      cpSync(source, join(tree, target), { recursive: true, dereference: true });
    }
    for (const [link, target] of Object.entries(contents.links ?? {})) {
      mkdirSync(dirname(join(tree, link)), { recursive: true });
      await must('ln', '-s', target, join(tree, link));
    }
    await must('chmod', '1777', join(tree, 'tmp'));
    writeFileSync(join(tree, 'etc/passwd'), 'root:x:0:0:root:/:/bin/sh\nnonroot:x:65532:65532:nonroot:/:/bin/sh\n');
    const layer = join(folder, 'layer.tar');
    await tar(layer, tree, '.');
    const configuration = JSON.stringify({
      architecture: contents.architecture ?? ownArchitecture,
      os: 'linux',
      config: { Entrypoint: contents.entrypoint, Env: ['PATH=/usr/bin:/bin', ...(contents.environment ?? [])] },
      rootfs: { type: 'layers', diff_ids: [`sha256:${await sha256(layer)}`] },
    });
    writeFileSync(join(folder, 'config.json'), configuration);
    const manifest = [{ Config: 'config.json', RepoTags: [contents.name], Layers: ['layer.tar'] }];
    writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest));
    await tar(join(folder, 'image.tar'), folder, 'manifest.json', 'config.json', 'layer.tar');
    renameSync(join(folder, 'image.tar'), path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function tar(path: string, folder: string, ...names: string[]): Promise<void> {
  const same = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  await must('tar', ...same, '-C', folder, '-cf', path, ...names);
}

async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}
