import { accessSync, constants, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { DaemonProcess, mountPointsBelow } from '@hearth/common/testing';
import { run } from './command.ts';
import { processorSeconds } from './processor_time.ts';
import type { S3Bucket } from './s3_bucket.ts';

/** Another program that mounts a folder of a bucket. It is measured where it is installed, and needed nowhere. */
export interface Peer {
  /** As in PATH. */
  name: string;
  /** Its arguments: the mount at `target`, read-only, in the foreground; what it keeps on disk goes to `scratch`, which is there. */
  words: (bucket: S3Bucket, target: string, scratch: string) => string[];
}

/** With their own defaults, but for what makes them keep what they have read, as an agent does, where they can. */
export const peers: readonly Peer[] = [
  {
    name: 's3fs',
    words: (bucket, target, scratch) => {
      const { accessKeyId, secretAccessKey } = bucket.keys;
      const passwords = join(scratch, 'passwords');
      writeFileSync(passwords, `${accessKeyId}:${secretAccessKey}\n`, { mode: 0o600 });
      const server = ['use_path_request_style', `url=${bucket.endpoint}`, `endpoint=${bucket.region}`];
      const options = ['ro', ...server, `passwd_file=${passwords}`, `use_cache=${scratch}/cache`, `tmpdir=${scratch}`];
      return [`${bucket.name}:/${bucket.folder}`, target, '-f', '-o', options.join(',')];
    },
  },
  {
    name: 'rclone',
    words: (bucket, target, scratch) => [
      ...['mount', `:s3:${bucket.name}/${bucket.folder}`, target, '--read-only', '--config', join(scratch, 'none')],
      ...['--s3-provider', 'Other', '--s3-endpoint', bucket.endpoint, '--s3-region', bucket.region, '--s3-env-auth'],
      ...['--vfs-cache-mode', 'full', '--cache-dir', join(scratch, 'cache')],
    ],
  },
  {
    name: 'geesefs',
    words: (bucket, target, scratch) => [
      ...['-f', '-o', 'ro', '--endpoint', bucket.endpoint, '--region', bucket.region],
      ...['--cache', join(scratch, 'cache'), `${bucket.name}:${bucket.folder}`, target],
    ],
  },
  {
    name: 'mount-s3',
    words: (bucket, target, scratch) => [
      ...[bucket.name, target, '--foreground', '--read-only', '--prefix', `${bucket.folder}/`],
      ...['--endpoint-url', bucket.endpoint, '--region', bucket.region, '--force-path-style'],
      ...['--cache', join(scratch, 'cache')],
    ],
  },
];

export function isInstalled(name: string, path = process.env.PATH ?? ''): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** A peer that has read nothing of the bucket yet, and its mount. */
export class PeerMount {
  readonly path: string;
  readonly #folder: string;
  readonly #program: DaemonProcess;

  private constructor(path: string, folder: string, program: DaemonProcess) {
    this.path = path;
    this.#folder = folder;
    this.#program = program;
  }

  /** `folder`: on the disk of our caches; it is removed at the end. */
  static async start(peer: Peer, bucket: S3Bucket, folder: string): Promise<PeerMount> {
    const [path, scratch] = [join(folder, 'mount'), join(folder, 'scratch')];
    for (const made of [path, join(scratch, 'cache')]) mkdirSync(made, { recursive: true });
    // Their authorities are for servers with certificates, and rclone does not start where it is given.
    const environment = { ...bucket.environment, AWS_CA_BUNDLE: undefined };
    const program = new DaemonProcess(peer.name, peer.words(bucket, path, scratch), { environment });
    const mounted = new PeerMount(path, folder, program);
    try {
      await program.until(`${peer.name} has mounted the bucket`, () => mountPointsBelow(folder).includes(path));
    } catch (error) {
      await mounted.stop();
      throw error;
    }
    return mounted;
  }

  processorSeconds(): number {
    return processorSeconds(this.#program.pid);
  }

  async stop(): Promise<void> {
    for (const point of mountPointsBelow(this.#folder)) await run('umount', ['--lazy', point]);
    await this.#program.end('SIGTERM');
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
