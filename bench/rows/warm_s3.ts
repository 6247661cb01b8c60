import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { run, seconds } from '../command.ts';
import { makeFiles, makeSmallFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache } from '../reader.ts';
import { type BucketSetting, withBucket } from './bucket.ts';
import { coldFiles } from './cold.ts';

const dataset = 'mixed';
const smallFiles = 2000;
const smallBytes = 16 * 1024;
/** Of each small file, with what a file system needs for it. */
const roomBytes = 64 * 1024;

const gibOf = ({ bytes }: Surroundings): number => (bytes + smallFiles * smallBytes) / 2 ** 30;

/** GiB/s of a warm job of an agent that holds nothing of it, from its creation until all is stored and its view linked. */
async function warmed({ around, cluster }: BucketSetting, verify: 'none' | 'checksum'): Promise<number> {
  await cluster.evict(dataset);
  await dropPageCache();
  return gibOf(around) / (await cluster.secondsToStored(dataset, verify));
}

/** GiB/s of s5cmd, by its defaults, into an empty folder, with fsync of each file and of the folder at the end. */
async function copied({ around, bucket }: BucketSetting): Promise<number> {
  const into = join(around.directory, 's5cmd');
  rmSync(into, { recursive: true, force: true });
  await dropPageCache();
  const took = await seconds(async () => {
    await bucket.s5cmd('cp', bucket.objects, `${into}/`);
    await run('sync', [...readdirSync(into).map((name) => join(into, name)), into]);
  });
  const files = readdirSync(into).length;
  if (files !== coldFiles + smallFiles) throw new Error(`s5cmd has copied ${files} files`);
  rmSync(into, { recursive: true });
  return gibOf(around) / took;
}

async function rows(setting: BucketSetting): Promise<void> {
  const { around } = setting;
  const common = { unit: 'GiB/s', better: 'more' as const, target: 1.2 };
  const baseline = (): Promise<number> => copied(setting);
  await around.row({
    ...common,
    id: 'warm-s3',
    what: `a warm job of 8 large and ${smallFiles} files of 16 KiB from S3 in memory until it is stored, against s5cmd and fsync of each`,
    sides: { value: () => warmed(setting, 'none'), baseline },
  });
  await around.row({
    ...common,
    id: 'warm-s3-verified',
    what: 'the same, then read back from the disk and checked, against s5cmd and fsync without a check',
    sides: { value: () => warmed(setting, 'checksum'), baseline },
  });
}

/** Large files with many small ones among them, from a bucket onto the disk. */
export const warmS3: Group = {
  ids: ['warm-s3'],
  measure: (around: Surroundings): Promise<void> => {
    const make = (folder: string): void => {
      makeFiles(folder, coldFiles, around.bytes);
      makeSmallFiles(folder, smallFiles, smallBytes);
    };
    return withBucket(around, { dataset, bytes: around.bytes + smallFiles * roomBytes, make }, rows);
  },
};
