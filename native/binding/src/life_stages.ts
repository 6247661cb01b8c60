// A process of its own for the tests of the addon's life: goes to a stage and ends there in a way.
// Usage: life_stages.ts STAGE END FOLDER; says "reached" on its standard output before the end.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import type { Engine, EngineOptions } from './engine.ts';
import { mountPaths } from './mounted_read.ts';
import { openEngine } from './native-engine.ts';

const [stage = '', end = '', folder = ''] = isMainThread ? process.argv.slice(2) : (workerData as string[]);
const size = 8 * 1024 * 1024;

const options: EngineOptions = {
  node: 'n',
  incarnation: 'i',
  cluster: 'c',
  secret: Buffer.from('a secret of some length'),
  listen: [{ host: '127.0.0.1', port: 0 }],
  cacheDirectories: [{ path: join(folder, 'cache'), budgetBytes: 1n << 30n, freeFloorBytes: 0n }],
  shards: 2,
  originConnections: 4,
  bufferBytes: 64n << 20n,
  memoryBytes: 0n,
  arenaPages: 'transparent',
  holder: mountPaths(folder).holder,
  clientSocket: '',
  volumeTails: '',
  scrubBytesPerSecond: 0n,
  limits: {
    origin: { total: 0n, warm: 0n },
    peers: { total: 0n, warm: 0n },
    disk: { total: 0n, warm: 0n },
  },
  rdma: { use: 'off', devices: [], library: '' },
  certificateAuthorities: '',
  forbidPrivateAddresses: false,
  allowedNetworks: [],
  proxies: { http: '', https: '', none: '' },
  // Locations are never answered: what asks for them stays pending.
  onEvent: () => {},
};

async function dataset(engine: Engine): Promise<string> {
  writeFileSync(join(folder, 'file'), Buffer.alloc(size, 7));
  const builder = engine.createManifestBuilder({ skipUnusable: false });
  const contentKey = createHash('sha256').update('key').digest('hex');
  builder.add([{ path: 'file', kind: 'file', size: BigInt(size), contentKey }]);
  return (await engine.finishManifest(builder)).digest;
}

/** Goes on alone: what it gives is of no interest. */
const pending = (work: Promise<unknown>): void => void work.catch(() => {});

const stages: Record<string, () => Promise<Engine | undefined>> = {
  async loaded() {
    await openEngine({ ...options, secret: Buffer.from('short') }).catch(() => {});
    return undefined;
  },
  async opening() {
    pending(openEngine(options));
    return undefined;
  },
  async failed() {
    await openEngine({ ...options, listen: [{ host: '192.0.2.1', port: 1 }] }).then(
      () => Promise.reject(new Error('the engine listens at an address that is not ours')),
      () => {},
    );
    return undefined;
  },
  idle: async () => await openEngine(options),
  async warming() {
    const engine = await openEngine(options);
    const manifest = await dataset(engine);
    await engine.warm({
      job: 'j',
      manifest,
      dataset: 'd',
      priority: 1,
      rateLimit: 0n,
      peerRateLimit: 0n,
      hasDeadline: false,
      verify: 'none',
    });
    return engine;
  },
  async pending() {
    const engine = await openEngine(options);
    const manifest = await dataset(engine);
    for (let i = 0; i < 50; i++) pending(engine.read({ manifest, dataset: 'd' }, 1, 0n, 4096));
    for (let i = 0; i < 50; i++) pending(engine.statistics());
    return engine;
  },
  // A process reads from a mount of ours, and waits for a chunk that will not come.
  async reading() {
    const engine = await openEngine(options);
    const manifest = await dataset(engine);
    await engine.mount({
      target: mountPaths(folder).target,
      manifest,
      dataset: 'd',
      source: 'hearth:d',
      dataPath: 'fuse',
    });
    while ((await engine.statistics()).demandReads === 0n) await sleep(10);
    return engine;
  },
};

const ends: Record<string, (engine: Engine | undefined) => Promise<void> | void> = {
  async close(engine) {
    await Promise.all([engine?.close(), engine?.close()]);
    await engine?.close();
    // The engine refuses later calls instead of crashing.
    await engine?.statistics().then(
      () => Promise.reject(new Error('a closed engine answers')),
      () => {},
    );
  },
  exit: () => process.exit(0),
  signal: () => void process.kill(process.pid, 'SIGTERM'),
  // The event loop has nothing left to wait for, or waits for an open engine until it is to end.
  async throw() {
    throw new Error('ended by an error');
  },
};

if (isMainThread && end === 'terminate') {
  const worker = new Worker(new URL(import.meta.url), { argv: [], workerData: [stage, 'hold', folder] });
  worker.once('message', async () => {
    await worker.terminate();
    process.stdout.write('reached\n');
  });
} else {
  const engine = await stages[stage]?.();
  if (isMainThread) {
    process.stdout.write('reached\n');
    await ends[end]?.(engine);
  } else {
    const { parentPort } = await import('node:worker_threads');
    parentPort?.postMessage('reached');
    setInterval(() => {}, 1000);
  }
}
