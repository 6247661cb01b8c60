import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster } from '../cluster.ts';
import type { Surroundings } from '../plan.ts';
import { S3Bucket } from '../s3_bucket.ts';
import { Tmpfs } from '../tmpfs.ts';
import { memoryForAll } from './cold.ts';

const slack = 64 * 2 ** 20;

export interface BucketSetting {
  around: Surroundings;
  /** One agent, which has the bucket as a dataset and holds nothing of it. */
  cluster: Cluster;
  bucket: S3Bucket;
}

interface Contents {
  /** Name of the dataset. */
  dataset: string;
  /** With what a file system needs for them. */
  bytes: number;
  /** Writes its files into a folder. */
  make: (folder: string) => void;
}

/** Does something with a bucket in memory, and an agent of its own; nothing of either is left. */
export async function withBucket(
  around: Surroundings,
  { dataset, bytes, make }: Contents,
  work: (setting: BucketSetting) => Promise<void>,
): Promise<void> {
  // Uploaded files and the server's copies are there at once.
  const memory = await Tmpfs.mount(join(around.directory, 'memory'), 2 * bytes + slack);
  let bucket: S3Bucket | undefined;
  let cluster: Cluster | undefined;
  try {
    bucket = await S3Bucket.start(join(memory.path, 's3'));
    const made = join(memory.path, 'made');
    make(made);
    await bucket.upload(made);
    rmSync(made, { recursive: true });
    // One of its own, as agents take the keys from the environment when they start.
    const budget = 2 * around.bytes + 2 ** 30;
    cluster = await Cluster.start(join(around.directory, 'cold'), ['cold'], budget, {
      ...around,
      memoryBytes: memoryForAll(around),
    });
    await cluster.hearth(['dataset', 'add', dataset, ...bucket.source]);
    await work({ around, cluster, bucket });
  } finally {
    await cluster?.stop();
    await bucket?.stop();
    await memory.remove();
  }
}
