import { join } from 'node:path';
import { makeFiles } from '../data.ts';
import { oncePerRun } from '../once_per_run.ts';
import { isInstalled, type Peer, PeerMount, peers } from '../peers.ts';
import type { Group, Surroundings } from '../plan.ts';
import type { BesideMeasure } from '../result.ts';
import { type BucketSetting, withBucket } from './bucket.ts';
import {
  type ColdRead,
  coldFiles,
  curlAll,
  curlRanges,
  partsOf,
  readCold,
  readersOf,
  readThroughAgent,
  warmIntoMemory,
} from './cold.ts';

const dataset = 'bucket';

async function readThroughPeer({ around, bucket }: BucketSetting, peer: Peer, readers: number): Promise<ColdRead> {
  const mount = await PeerMount.start(peer, bucket, join(around.directory, `peer-${peer.name}`));
  try {
    return await readCold(mount.path, readers, () => mount.processorSeconds());
  } finally {
    await mount.stop();
  }
}

type Reading = (run: number) => Promise<ColdRead>;

/** Readings through the agent, and through each peer that is here. */
function readingsOf(setting: BucketSetting, readers: number): { own: Reading; others: Map<string, Reading> } {
  const others = peers
    .filter(({ name }) => isInstalled(name))
    .map((peer) => [peer.name, oncePerRun(() => readThroughPeer(setting, peer, readers))] as const);
  const own = oncePerRun(() => readThroughAgent(setting.cluster, dataset, readers));
  return { own, others: new Map(others) };
}

const besides = (others: Map<string, Reading>, key: keyof ColdRead): BesideMeasure[] =>
  peers.map(({ name }) => {
    const reading = others.get(name);
    return { name, measure: reading && (async (run) => (await reading(run))[key]) };
  });

async function rows(setting: BucketSetting): Promise<void> {
  const { around, bucket } = setting;
  const words = partsOf(coldFiles).map((file) => bucket.curlWords(file));
  const [one, four] = [readingsOf(setting, 1), readingsOf(setting, 4)];
  for (const [readers, { own, others }] of [[1, one] as const, [4, four] as const]) {
    await around.row({
      id: `cold-s3-${readers}r`,
      what: `empty cache, ${readersOf(readers)} of 8 files through the mount, S3 origin in memory, against 8 curl to /dev/null`,
      unit: 'GiB/s',
      better: 'more',
      target: 0.8,
      sides: {
        value: async (run) => (await own(run)).gibPerSecond,
        baseline: () => curlAll(around.bytes, words),
      },
      beside: besides(others, 'gibPerSecond'),
    });
  }
  await around.row({
    id: 'memory-s3',
    what: 'a warm job from the same bucket until all is in memory, against 8 curl to /dev/null',
    unit: 'GiB/s',
    better: 'more',
    target: 0.75,
    sides: {
      value: () => warmIntoMemory(setting.cluster, dataset, around.bytes),
      baseline: () => curlAll(around.bytes, words),
    },
    beside: [{ name: 'curl, by ranges', measure: () => curlRanges(around.bytes, words, around.bytes / coldFiles) }],
  });
  const least = async (run: number): Promise<number> => {
    const used = [...one.others.values()].map(
      async (reading) => (await reading(run).catch(() => undefined))?.cpuPerGib,
    );
    const known = (await Promise.all(used)).filter((each) => each !== undefined);
    return known.length === 0 ? Number.NaN : Math.min(...known);
  };
  await around.row({
    id: 'cpu-cold',
    what: 'processor time of the agent for each GiB of cold-s3-1r, against the other program that took least',
    unit: 's/GiB',
    better: 'less',
    target: 1.2,
    sides: { value: async (run) => (await one.own(run)).cpuPerGib, baseline: least },
    beside: besides(one.others, 'cpuPerGib'),
  });
}

/** Bytes that come from a bucket for the first time, beside other programs that mount it. */
export const coldS3: Group = {
  ids: ['cold-s3', 'memory-s3', 'cpu-cold'],
  measure: (around: Surroundings): Promise<void> => {
    const make = (folder: string) => makeFiles(folder, coldFiles, around.bytes);
    return withBucket(around, { dataset, bytes: around.bytes, make }, rows);
  },
};
