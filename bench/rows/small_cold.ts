import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { seconds } from '../command.ts';
import { makeSmallFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFolder } from '../reader.ts';
import { S3Bucket } from '../s3_bucket.ts';
import { Tmpfs } from '../tmpfs.ts';

const files = 8000;
const bytes = 16 * 1024;
/** Of each file, with what a file system needs for it. */
const roomBytes = 64 * 1024;

/** Thousands of files a second that s5cmd, by its defaults, writes into an empty folder. */
async function copied({ directory }: Surroundings, bucket: S3Bucket): Promise<number> {
  const into = join(directory, 's5cmd');
  rmSync(into, { recursive: true, force: true });
  await dropPageCache();
  const rate = files / (await seconds(() => bucket.s5cmd('cp', bucket.objects, `${into}/`))) / 1000;
  if (readdirSync(into).length !== files) throw new Error(`s5cmd has not copied ${files} files`);
  return rate;
}

/**
 * An agent that has never seen the dataset: thousands of files a second, read one after the other through its mount, the first
 * time, or once more when nothing of them is cached.
 */
async function coldRead(around: Surroundings, bucket: S3Bucket, name: string, again = false): Promise<number> {
  const cluster = await Cluster.start(join(around.directory, name), ['first'], 2 ** 30, around);
  try {
    await cluster.hearth(['dataset', 'add', 'small', ...bucket.source]);
    const read = async (): Promise<number> => {
      const mount = await cluster.mount('small', 'fuse');
      await dropPageCache();
      const rate = await readFolder(mount, files);
      await cluster.unmount(mount);
      return rate;
    };
    const rate = await read();
    if (!again) return rate;
    await cluster.evict('small');
    return await read();
  } finally {
    await cluster.stop();
  }
}

/** Small files from a real S3 server, read for the first time. */
export const smallCold: Group = {
  ids: ['cold-small-first', 'cold-small-again'],
  async measure(around: Surroundings): Promise<void> {
    const memory = await Tmpfs.mount(join(around.directory, 'memory'), 2 * files * roomBytes);
    let bucket: S3Bucket | undefined;
    try {
      const native = join(memory.path, 'small');
      makeSmallFiles(native, files, bytes);
      const started = await S3Bucket.start(join(memory.path, 's3'));
      bucket = started;
      await bucket.upload(native);
      await around.row({
        id: 'cold-small-first',
        what: `empty agent, ${files} files of 16 KiB from S3 in memory through the mount, against s5cmd`,
        unit: 'k/s',
        better: 'more',
        target: 0.6,
        sides: {
          value: (round) => coldRead(around, started, `first-${round}`),
          baseline: () => copied(around, started),
        },
      });
      await around.row({
        id: 'cold-small-again',
        what: 'the same first read, against a later one by the same agent when all of it was evicted',
        unit: 'k/s',
        better: 'more',
        target: 1 / 1.3,
        sides: {
          value: (round) => coldRead(around, started, `once-${round}`),
          baseline: (round) => coldRead(around, started, `again-${round}`, true),
        },
      });
    } finally {
      await bucket?.stop();
      await memory.remove();
    }
  },
};
