import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { tool } from '@hearth/common/testing';
import { makeKeys, S3Server } from '@hearth/common/testing/origins';
import { Cluster } from '../cluster.ts';
import { run, seconds } from '../command.ts';
import { makeSmallFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFolder } from '../reader.ts';

const files = 2000;
const bytes = 16 * 1024;
const bucket = 'bench';
const folder = 'small';
const uploadsAtOnce = 16;
/** Of all servers of this process, as agents take them from its environment. */
const keys = makeKeys();

const nameOf = (index: number): string => `file-${String(index).padStart(6, '0')}`;

function clientOf(server: S3Server): S3Client {
  const { endpoint } = server;
  return new S3Client({ endpoint, credentials: keys, region: 'us-east-1', forcePathStyle: true });
}

async function upload(server: S3Server, from: string): Promise<void> {
  const client = clientOf(server);
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let index = next++; index < files; index = next++) {
      const body = readFileSync(join(from, nameOf(index)));
      await client.send(new PutObjectCommand({ Bucket: bucket, Key: `${folder}/${nameOf(index)}`, Body: body }));
    }
  };
  await Promise.all(Array.from({ length: uploadsAtOnce }, worker));
  client.destroy();
}

/** Thousands of files a second that s5cmd, by its defaults, writes into an empty folder. */
async function copied({ directory }: Surroundings, { endpoint }: S3Server): Promise<number> {
  const program = await tool('s5cmd');
  const into = join(directory, 's5cmd');
  rmSync(into, { recursive: true, force: true });
  await dropPageCache();
  const words = ['--endpoint-url', endpoint, 'cp', `s3://${bucket}/${folder}/*`, `${into}/`];
  const rate = files / (await seconds(() => run(program, words))) / 1000;
  if (readdirSync(into).length !== files) throw new Error(`s5cmd has not copied ${files} files`);
  return rate;
}

/** An agent that has never seen the dataset: thousands of files a second, read one after the other through its mount. */
async function firstRead(around: Surroundings, server: S3Server, round: number): Promise<number> {
  const { endpoint } = server;
  const cluster = await Cluster.start(join(around.directory, `first-${round}`), ['first'], 2 ** 30, around);
  try {
    const source = ['small', `s3://${bucket}/${folder}`, '--endpoint', endpoint, '--region', 'us-east-1'];
    await cluster.hearth(['dataset', 'add', ...source, '--allow-private']);
    const mount = await cluster.mount('small', 'fuse');
    await dropPageCache();
    const rate = await readFolder(mount, files);
    await cluster.unmount(mount);
    return rate;
  } finally {
    await cluster.stop();
  }
}

/** Small files from a real S3 server, read for the first time. */
export const smallCold: Group = {
  ids: ['cold-small-first'],
  async measure(around: Surroundings): Promise<void> {
    const native = join(around.directory, 'small');
    makeSmallFiles(native, files, bytes);
    const server = await S3Server.start({ folder: join(around.directory, 's3'), keepAlive: true, keys });
    try {
      await upload(server, native);
      Object.assign(process.env, server.environment);
      await around.row({
        id: 'cold-small-first',
        what: `empty agent, ${files} files of 16 KiB from S3 through the mount, against s5cmd`,
        unit: 'k/s',
        better: 'more',
        target: 0.6,
        sides: {
          value: (round) => firstRead(around, server, round),
          baseline: () => copied(around, server),
        },
      });
    } finally {
      await server.stop();
    }
  },
};
