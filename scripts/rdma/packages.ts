import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, ToolUnavailable } from '../tools/cache.ts';
import { lock } from '../tools/lock.ts';

const execute = promisify(execFile);

/** Packages whose programs run, with the libraries that this machine lacks. */
const programs = ['qemu-system-x86', 'perftest', 'ibverbs-providers'];
/** Packages of which files are taken, without what they depend on. */
const files = ['busybox-static'];

/** In the order in which they load. rxe refuses devices without crc32_generic, which no module names. */
const modules = [
  ...['virtio_ring', 'virtio', 'virtio_pci_modern_dev', 'virtio_pci_legacy_dev', 'virtio_pci'],
  ...['9pnet', '9pnet_virtio', 'netfs', 'fscache', '9p'],
  ...['configfs', 'ib_core', 'ib_cm', 'iw_cm', 'rdma_cm', 'ib_uverbs', 'rdma_ucm'],
  ...['crc32_generic', 'crc32-pclmul', 'udp_tunnel', 'ip6_udp_tunnel', 'rdma_rxe', 'veth'],
];

const initScript = join(import.meta.dirname, 'guest/init.sh');

/** A machine that can be booted, and the programs of rdma-core that run in it. */
export interface Packages {
  /** Root of the unpacked packages. */
  root: string;
  kernel: string;
  initramfs: string;
  /** For LD_LIBRARY_PATH of the programs in `root`. */
  libraries: string;
}

/**
 * The packages, fetched by apt once for each set of versions and unpacked in the cache; nothing is installed. Throws
 * ToolUnavailable where apt cannot fetch them.
 */
export async function rdmaPackages(): Promise<Packages> {
  if (process.arch !== 'x64') throw new ToolUnavailable(`there is no emulated machine for ${process.arch}`);
  const image = await kernelImage();
  const key = await keyOf(image);
  const folder = join(cacheFolder, `rdma-machine-${key}`);
  if (!existsSync(folder)) {
    mkdirSync(cacheFolder, { recursive: true });
    await using _ = await lock(join(cacheFolder, '.rdma-machine.lock'));
    if (!existsSync(folder)) await unpackInto(folder, image);
  }
  const root = join(folder, 'root');
  const libraries = ['usr/lib', 'lib'].map((path) => join(root, path, 'x86_64-linux-gnu')).join(':');
  return { root, kernel: join(folder, 'kernel'), initramfs: join(folder, 'initramfs.gz'), libraries };
}

/** `linux-image-6.1.0-56-amd64`, of which linux-image-amd64 is the newest. */
async function kernelImage(): Promise<string> {
  const { stdout } = await apt('apt-cache', ['depends', 'linux-image-amd64']);
  const name = /Depends: (linux-image-\S+)/.exec(stdout)?.[1];
  if (name === undefined) throw new ToolUnavailable('apt knows no linux-image-amd64; run `apt-get update`');
  return name;
}

/** Of the versions that apt would fetch, and of all that is made of them here. */
async function keyOf(image: string): Promise<string> {
  const fetched = await apt('apt-get', ['install', '--print-uris', ...installOptions, ...programs]);
  const taken = await apt('apt-get', ['download', '--print-uris', '-qq', image, ...files]);
  const names = `${fetched.stdout}${taken.stdout}`.match(/\S+\.deb /g) ?? [];
  const hash = createHash('sha256').update(names.sort().join('\n')).update(modules.join());
  return hash.update(readFileSync(initScript)).digest('hex').slice(0, 12);
}

const installOptions = ['-qq', '-y', '--no-install-recommends', '-o', 'Debug::NoLocking=1'];

async function unpackInto(folder: string, image: string): Promise<void> {
  console.error('fetching a kernel, qemu and perftest for an emulated machine (once, 90 MB)');
  const making = `${folder}.making`;
  rmSync(making, { recursive: true, force: true });
  const archives = join(making, 'archives');
  const root = join(making, 'root');
  for (const path of [join(archives, 'partial'), root]) mkdirSync(path, { recursive: true });
  const into = ['-o', `Dir::Cache::archives=${archives}`];
  await apt('apt-get', ['install', '--download-only', ...into, ...installOptions, ...programs]);
  await apt('apt-get', ['download', '-qq', '-o', 'APT::Sandbox::User=root', image, ...files], archives);
  for (const archive of globSync('*.deb', { cwd: archives })) {
    await execute('dpkg-deb', ['-x', join(archives, archive), root]);
  }
  renameSync(onlyFile(root, 'boot/vmlinuz-*'), join(making, 'kernel'));
  await makeInitramfs(root, making);
  for (const path of [archives, join(root, 'lib/modules'), join(root, 'boot')]) rmSync(path, { recursive: true });
  renameSync(making, folder);
}

async function makeInitramfs(root: string, making: string): Promise<void> {
  const tree = join(making, 'initramfs');
  for (const path of ['bin', 'modules']) mkdirSync(join(tree, path), { recursive: true });
  cpSync(join(root, 'bin/busybox'), join(tree, 'bin/busybox'));
  cpSync(initScript, join(tree, 'init'));
  for (const [index, name] of modules.entries()) {
    const path = onlyFile(root, `lib/modules/*/kernel/**/${name}.ko`);
    cpSync(path, join(tree, 'modules', `${String(index).padStart(2, '0')}-${basename(path)}`));
  }
  const pack = 'find . | bin/busybox cpio -o -H newc | gzip -1 > "$1"';
  await execute('bash', ['-o', 'pipefail', '-c', pack, 'bash', join(making, 'initramfs.gz')], { cwd: tree });
  rmSync(tree, { recursive: true });
}

function onlyFile(root: string, pattern: string): string {
  const [path] = globSync(pattern, { cwd: root });
  if (path === undefined) throw new Error(`no package has ${pattern}`);
  return join(root, path);
}

async function apt(command: string, words: string[], cwd = '/'): Promise<{ stdout: string }> {
  try {
    return await execute(command, words, {
      cwd,
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
    });
  } catch (thrown) {
    const { stderr = '', message } = thrown as { stderr?: string; message: string };
    const reason = stderr.trim().split('\n').at(-1) || message.split('\n')[0];
    throw new ToolUnavailable(`${command} ${words[0]} fails: ${reason}; run \`apt-get update\``);
  }
}
