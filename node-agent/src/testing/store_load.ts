import { join } from 'node:path';
import { elapse, until } from '@hearth/common/testing';
import { defaultTimings } from '../context.ts';
import { openStore } from '../store/index.ts';
import { TestCluster } from './cluster.ts';
import { directorySource, fileRow } from './fake_origin.ts';

const busyIntervalMs = 250;

export interface StoreLoad {
  /** A second, of one agent. */
  bytes: number;
  requests: number;
  /** By name of the call, in the whole time. */
  calls: Record<string, number>;
}

/** `busy`: bytes of every dataset come in all the time. */
export interface StoreLoadOptions {
  busy: boolean;
  seconds: number;
  datasets: number;
  /** Default: a new SQLite store. */
  address?: string;
  /** Called right before and after the counting. */
  begun?: () => Promise<void>;
  ended?: () => Promise<void>;
}

/** The load of one agent on the store, with the intervals of production, counted after everything has settled. */
export async function storeLoad({
  busy,
  seconds,
  datasets,
  address,
  begun,
  ended,
}: StoreLoadOptions): Promise<StoreLoad> {
  const open = (folder: string) => openStore(address ?? `sqlite:${join(folder, 'store.sqlite')}`);
  const rows = [fileRow('model.bin', 1n << 40n)];
  const cluster = await TestCluster.start(['a'], rows, defaultTimings, open);
  let stop = () => {};
  try {
    const agent = cluster.agent('a');
    const request = { source: directorySource, include: [], exclude: [] };
    for (let index = 0; index < datasets; index++) {
      await agent.resolution.add(`ns.model-${index}`, request, () => {}, AbortSignal.timeout(60_000));
    }
    await until('all are counted', () => Object.keys(agent.statistics.current?.residency ?? {}).length === datasets);
    const key = rows[0]?.contentKey ?? '';
    if (busy) stop = cluster.clock.every(busyIntervalMs, () => cluster.engine('a').addResident(key, 1n << 20n));
    await begun?.();
    const began = new Map([...agent.context.store.traffic].map(([call, counts]) => [call, { ...counts }]));
    const before = agent.statistics.history.sequence;
    await elapse(seconds * 1000, 'the load is counted over a time');
    if (busy && agent.statistics.history.sequence === before) throw new Error('the busy agent has counted nothing');
    await ended?.();
    const counted = [...agent.context.store.traffic].flatMap(([call, now]) => {
      const before = began.get(call) ?? { requests: 0, bytes: 0 };
      const requests = now.requests - before.requests;
      return requests === 0 ? [] : [{ call, requests, bytes: now.bytes - before.bytes }];
    });
    const sum = (key: 'requests' | 'bytes') => counted.reduce((total, one) => total + one[key], 0) / seconds;
    const calls = Object.fromEntries(counted.map(({ call, requests }) => [call, requests]));
    return { bytes: sum('bytes'), requests: sum('requests'), calls };
  } finally {
    stop();
    await cluster.close();
  }
}

// For `make bench`: the load of an idle or a busy agent with 500 Datasets, as JSON.
if (import.meta.main) {
  const busy = process.argv[2] === 'busy';
  console.log(JSON.stringify(await storeLoad({ busy, seconds: 30, datasets: 500 })));
}
