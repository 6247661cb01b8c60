import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { S3RequestPresigner } from '@aws-sdk/s3-request-presigner';
import { Cluster } from '../cluster.ts';
import { run, seconds } from '../command.ts';
import { makeSmallFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFolder } from '../reader.ts';
import { S3Server } from '../s3_server.ts';

const files = 2000;
const bytes = 16 * 1024;
const bucket = 'bench';
const folder = 'small';
const uploadsAtOnce = 16;
/** What s5cmd does with its defaults is as fast as its machine lets it be; curl gets as many connections as the agent. */
const connections = 32;

const nameOf = (index: number): string => `file-${String(index).padStart(6, '0')}`;

function clientOf(server: S3Server): S3Client {
  const { endpoint, keys } = server;
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

/** A file of curl's options that reads every object by a URL that was signed before, so that no signing is timed. */
async function curlOptions(server: S3Server, directory: string): Promise<string> {
  const { protocol, hostname, port, host } = new URL(server.endpoint);
  const client = clientOf(server);
  const presigner = new S3RequestPresigner(client.config);
  const lines: string[] = [];
  for (let index = 0; index < files; ++index) {
    const path = `/${bucket}/${folder}/${nameOf(index)}`;
    const request = { protocol, hostname, port: Number(port), method: 'GET', path, query: {}, headers: { host } };
    const { query = {} } = await presigner.presign(request, { expiresIn: 3600 });
    const text = new URLSearchParams(query as Record<string, string>);
    lines.push(`url = "${server.endpoint}${path}?${text}"`, `output = "/dev/null"`);
  }
  client.destroy();
  const file = join(directory, 'curl.txt');
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}

/** An agent that has never seen the dataset: thousands of files a second, read one after the other through its mount. */
async function firstRead(around: Surroundings, server: S3Server, round: number): Promise<number> {
  const { endpoint, keys } = server;
  process.env.AWS_ACCESS_KEY_ID = keys.accessKeyId;
  process.env.AWS_SECRET_ACCESS_KEY = keys.secretAccessKey;
  const cluster = await Cluster.start(join(around.directory, `first-${round}`), ['first'], 2 ** 30);
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
    const server = await S3Server.start(join(around.directory, 's3'));
    try {
      await upload(server, native);
      const options = await curlOptions(server, around.directory);
      await around.row({
        id: 'cold-small-first',
        what: `empty agent, ${files} files of 16 KiB from S3 through the mount, against ${connections} parallel curl`,
        unit: 'k/s',
        better: 'more',
        target: 0.6,
        sides: {
          value: (round) => firstRead(around, server, round),
          baseline: async () => {
            await dropPageCache();
            const args = ['-sS', '--fail', '-Z', '--parallel-max', String(connections), '-K', options];
            return files / (await seconds(() => run('curl', args))) / 1000;
          },
        },
      });
    } finally {
      await server.stop();
    }
  },
};
