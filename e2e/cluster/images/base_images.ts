import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { must, output, root } from '@hearth/common/testing';
import { nodeOf } from '../../../cli/executables/executable.ts';
import { cacheFolder } from '../../../scripts/tools/cache.ts';
import { type Architecture, type Buildah, ownArchitecture } from './buildah.ts';

/** As the images of that name do: no documentation and no translations. */
const slimming = `path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
`;

/** The Node that this checkout pins, which the Dockerfile names too. */
export function nodeVersion(): string {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).devDependencies.node;
}

/**
 * Puts images under the names that the Dockerfile starts from into a store, made by debootstrap and npm instead of being
 * fetched from a registry of images. They are made once and stay in the store.
 */
export async function ensureBaseImages(store: Buildah): Promise<void> {
  const debian = 'docker.io/library/debian:bookworm-slim';
  const node = `docker.io/library/node:${nodeVersion()}-bookworm-slim`;
  if (!(await store.hasImage(debian))) await commitDebian(store, debian);
  if (!(await store.hasImage(node))) await commitNode(store, debian, node);
}

/** The same for another processor, under names that are returned; Node's holds its program alone. The kernel must emulate it. */
export async function ensureForeignBaseImages(
  store: Buildah,
  architecture: Architecture,
): Promise<{ debian: string; node: string }> {
  const debian = `localhost/${architecture}/debian:bookworm-slim`;
  const node = `localhost/${architecture}/node:${nodeVersion()}`;
  if (!(await store.hasImage(debian))) await commitDebian(store, debian, architecture);
  if (!(await store.hasImage(node))) {
    const tree = join(scratch(), 'tree');
    try {
      const program = nodeOf(architecture === 'arm64' ? 'linux-arm64' : 'linux-x64');
      mkdirSync(join(tree, 'usr/local/bin'), { recursive: true });
      await must('cp', program, join(tree, 'usr/local/bin/node'));
      await store.commitTree('scratch', tree, node, [], architecture);
    } finally {
      rmSync(dirname(tree), { recursive: true, force: true });
    }
  }
  return { debian, node };
}

async function commitDebian(store: Buildah, name: string, architecture = ownArchitecture): Promise<void> {
  console.error(`making the Debian base image of ${architecture} (some minutes, once)`);
  const folder = scratch();
  const tree = join(folder, 'tree');
  try {
    const isOurs = architecture === ownArchitecture;
    const options = ['--variant=minbase', `--arch=${architecture}`, ...(isOurs ? [] : ['--foreign'])];
    await longCommand('debootstrap', [...options, 'bookworm', tree, 'http://deb.debian.org/debian']);
    if (!isOurs) await longCommand('chroot', [tree, '/debootstrap/debootstrap', '--second-stage']);
    mkdirSync(join(tree, 'etc/dpkg/dpkg.cfg.d'), { recursive: true });
    writeFileSync(join(tree, 'etc/dpkg/dpkg.cfg.d/docker'), slimming);
    for (const path of ['usr/share/doc', 'usr/share/man', 'usr/share/info', 'usr/share/locale']) {
      rmSync(join(tree, path), { recursive: true, force: true });
      mkdirSync(join(tree, path));
    }
    for (const path of ['var/cache/apt', 'var/lib/apt/lists', 'var/log']) {
      rmSync(join(tree, path), { recursive: true, force: true });
      mkdirSync(join(tree, path));
    }
    const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    await store.commitTree('scratch', tree, name, [path], architecture);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function commitNode(store: Buildah, base: string, name: string): Promise<void> {
  const folder = scratch();
  const tree = join(folder, 'tree');
  try {
    mkdirSync(join(tree, 'usr/local/bin'), { recursive: true });
    await must('cp', process.execPath, join(tree, 'usr/local/bin/node'));
    // The npm of this machine may be spread over folders of its distribution; the package is one folder.
    await must('npm', 'install', '--no-audit', '--no-fund', '--prefix', join(tree, 'usr/local/lib'), 'npm@11');
    await must('ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', join(tree, 'usr/local/bin/npm'));
    await store.commitTree(base, tree, name, []);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** An emulated processor takes many times as long. */
const longCommand = (program: string, args: string[]) => output(program, args, { timeoutMs: 60 * 60_000 });

function scratch(): string {
  mkdirSync(cacheFolder, { recursive: true });
  return mkdtempSync(join(cacheFolder, 'base-'));
}
