import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Nginx } from '@hearth/common/testing/origins';
import { Cluster } from '../cluster.ts';
import { makeFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFiles } from '../reader.ts';
import { partsOf } from './cold.ts';

const agents = 8;
const mib = 2 ** 20;
const fileBytes = 16 * mib;
/** Of a cache: six files. */
const budgetBytes = 6 * fileBytes;
const memoryBytes = 128 * mib;
/** Bytes that come when the storm is over: in all, twice what a cache takes. */
const rounds = 4;
const filesOfRound = 3;
/** Agents say what they hold every two seconds. */
const reportMs = 3000;

/** One storm: how many agents held the hot file, whole, after each step. */
interface Storm {
  /** One reader, then eight. */
  one: number;
  eight: number;
  /** One reader again: after each round of other files that all agents have got. */
  after: number[];
  /** Bytes of the hot file that the origin had sent, in multiples of it: when eight had read it, and at the end. */
  sentFirst: number;
  sentInAll: number;
}

interface Setting {
  around: Surroundings;
  /** Of the hot file alone, and of the others. */
  hot: Nginx;
  others: Nginx;
}

async function storm({ around, hot, others }: Setting): Promise<Storm> {
  const nodes = Array.from({ length: agents }, (_, index) => `agent-${index}`);
  const [wanting = ''] = nodes;
  const { release } = around;
  const cluster = await Cluster.start(join(around.directory, 'agents'), nodes, budgetBytes, { release, memoryBytes });
  try {
    const urls = partsOf(rounds * filesOfRound).map((part) => `${others.url}/${part}`);
    await cluster.hearth(['dataset', 'add', 'hot', `${hot.url}/part-0`, '--allow-private']);
    await cluster.hearth(['dataset', 'add', 'others', ...urls, '--allow-private']);
    const files = new Map<string, string>();
    for (const node of nodes) files.set(node, join(await cluster.mount('hot', 'fuse', node), 'part-0'));
    const read = async (readers: string[]): Promise<void> => {
      // The kernel would answer a reader without its agent.
      await dropPageCache();
      await Promise.all(readers.map((node) => readFiles('read', [files.get(node) ?? ''])));
    };
    const holders = async (): Promise<number> => {
      await sleep(reportMs);
      const held = await Promise.all(nodes.map((node) => cluster.residentBytes(node, 'hot')));
      return held.filter((bytes) => bytes === fileBytes).length;
    };
    const before = await hot.bytesSent();
    const sent = async (): Promise<number> => ((await hot.bytesSent()) - before) / fileBytes;
    await read([wanting]);
    const one = await holders();
    if (one === 0) throw new Error('no agent says that it holds the file that was read');
    await read(nodes);
    const eight = await holders();
    const sentFirst = await sent();
    const after: number[] = [];
    for (let round = 0; round < rounds; ++round) {
      await read([wanting]);
      const parts = partsOf(rounds * filesOfRound).slice(round * filesOfRound, (round + 1) * filesOfRound);
      await cluster.hearth(['warm', 'others', ...parts, '--verify', 'none']);
      after.push(await holders());
    }
    return { one, eight, after, sentFirst, sentInAll: await sent() };
  } finally {
    await cluster.stop();
  }
}

async function rows({ row }: Surroundings, storms: Storm[]): Promise<void> {
  await row({
    id: 'storm-copies',
    what: `agents that hold a file of 16 MiB when ${agents} have read it at once; readers`,
    unit: 'agents',
    better: 'more',
    target: 0,
    sides: { value: async (index) => storms[index]?.eight ?? Number.NaN, baseline: async () => agents },
  });
  await row({
    id: 'storm-left',
    what: 'agents that hold it when one alone goes on reading it, and all get other files; at least one',
    unit: 'agents',
    better: 'more',
    target: 1,
    sides: { value: async (index) => storms[index]?.after.at(-1) ?? Number.NaN, baseline: async () => 1 },
  });
  for (const [id, key, when] of [
    ['storm-origin', 'sentFirst', 'when the eight have read it'],
    ['storm-origin-after', 'sentInAll', 'at the end of all that'],
  ] as const) {
    await row({
      id,
      what: `size of the file / bytes the origin sent of it, ${when}`,
      unit: 'x',
      better: 'less',
      target: 1,
      sides: { value: async (index) => storms[index]?.[key] ?? Number.NaN, baseline: async () => 1 },
    });
  }
  for (const { one, eight, after } of storms)
    console.log(`  holders: 1 reader ${one}, ${agents} readers ${eight}, 1 reader ${after.join(' ')}`);
}

/** Readers of one file come and go: 1, 8, 1. */
export const storms: Group = {
  ids: ['storm'],
  share: 1 / 3,
  alone: true,
  async measure(around: Surroundings): Promise<void> {
    const servers: Nginx[] = [];
    const serve = async (name: string, count: number): Promise<Nginx> => {
      const served = join(around.directory, name);
      makeFiles(served, count, count * fileBytes);
      const nginx = await Nginx.start(join(around.directory, `nginx-${name}`), served);
      servers.push(nginx);
      return nginx;
    };
    try {
      const setting = { around, hot: await serve('hot', 1), others: await serve('others', rounds * filesOfRound) };
      const measured: Storm[] = [];
      for (let run = 0; run < around.runs; ++run) measured.push(await storm(setting));
      await rows(around, measured);
    } finally {
      for (const nginx of servers) await nginx.stop();
    }
  },
};
