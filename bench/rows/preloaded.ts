import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { root, run } from '../command.ts';
import { makeFiles, makeSafetensors } from '../data.ts';
import { whileHostKeepsMemory } from '../host_memory.ts';
import type { Group, Surroundings } from '../plan.ts';
import { cachedBytes, dropPageCache, readFiles, readOpened } from '../reader.ts';

const parts = 4;
/** Two reads of hot pages differ by up to a quarter here. */
const times = 3;
const mib = 2 ** 20;

const python = process.env.BENCH_PYTHON || join(root, 'build/bench-python/bin/python');
const loadOnce = join(root, 'bench/python/load_once.py');

/** KiB of this kernel's memory by name. */
function memory(name: 'Shmem' | 'AnonPages'): number {
  const text = readFileSync('/proc/meminfo', 'utf8');
  return Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1]);
}

/** One agent with memory for whole files, and its model: first reads by the mount that `hearth mount` chooses. */
class Preloaded {
  readonly #cluster: Cluster;
  readonly #files: string[];
  readonly #name: string;
  readonly cache: string;

  private constructor(cluster: Cluster, cache: string, name: string, files: string[]) {
    this.#cluster = cluster;
    this.cache = cache;
    this.#name = name;
    this.#files = files;
  }

  static async start(around: Surroundings, name: string, files: string[]): Promise<Preloaded> {
    const { directory, bytes, release } = around;
    const folder = join(directory, name);
    const options = { release, filesBytes: bytes + 2 ** 28 };
    const cluster = await Cluster.start(folder, ['preloaded'], 2 * bytes + 2 ** 30, options);
    const preloaded = new Preloaded(cluster, join(folder, 'cache-preloaded'), name, files);
    try {
      await cluster.hearth(['dataset', 'add', name, join(files[0] ?? '', '..')]);
    } catch (error) {
      await preloaded.stop();
      throw error;
    }
    return preloaded;
  }

  async warm(): Promise<void> {
    await this.evict();
    await this.#cluster.hearth(['warm', this.#name]);
  }

  evict(): Promise<void> {
    return this.#cluster.evict(this.#name);
  }

  /** What `read` says of the files in a mount, none of which is in the page cache; a warm job has just ended. */
  async first<T>(read: (paths: string[]) => Promise<T>): Promise<T> {
    await this.warm();
    const mount = await this.#cluster.mountBest(this.#name);
    try {
      await dropPageCache();
      return await read(this.#files.map((file) => join(mount, basename(file))));
    } finally {
      await this.#cluster.unmount(mount);
    }
  }

  /** The same while no agent runs since the files were opened. */
  firstWithoutAgent(): Promise<number> {
    return this.first(async (paths) => {
      try {
        return await readOpened(paths, async () => this.#cluster.signal('preloaded', 'SIGSTOP'));
      } finally {
        this.#cluster.signal('preloaded', 'SIGCONT');
      }
    });
  }

  stop(): Promise<void> {
    return this.#cluster.stop();
  }
}

async function reads(around: Surroundings): Promise<void> {
  const native = makeFiles(join(around.directory, 'preloaded-model'), parts, around.bytes);
  const preloaded = await Preloaded.start(around, 'model', native);
  const second = async (mode: 'read' | 'mmap'): Promise<number> => {
    await dropPageCache();
    await readFiles('read', native);
    return readFiles(mode, native);
  };
  const throughput = { unit: 'GiB/s', better: 'more' as const, target: 0.9, times };
  const against = 'through the default mount, against a second one of the native file system';
  try {
    for (const mode of ['read', 'mmap'] as const) {
      const name = mode === 'read' ? 'read()' : 'mmap';
      await around.row({
        id: `preloaded-${mode}`,
        what: `first ${name} after a warm job ${against}`,
        ...throughput,
        sides: { value: () => preloaded.first((paths) => readFiles(mode, paths)), baseline: () => second(mode) },
      });
    }
    await around.row({
      id: 'preloaded-stopped',
      what: `first read() after a warm job, the agent stopped since the open, ${against}`,
      ...throughput,
      sides: { value: () => preloaded.firstWithoutAgent(), baseline: () => second('read') },
    });
    await around.row({
      id: 'preloaded-memory',
      what: 'memory that a warm job has taken, of all processes, tmpfs and the pages of cache files, against the size of the model',
      unit: 'MiB',
      better: 'less',
      target: 1 / 1.05,
      sides: {
        value: async () => {
          await preloaded.warm();
          const after = memory('Shmem') + memory('AnonPages') + (await cachedBytes(preloaded.cache)) / 1024;
          await preloaded.evict();
          return (after - memory('Shmem') - memory('AnonPages')) / 1024;
        },
        baseline: async () => around.bytes / mib,
      },
    });
  } finally {
    await preloaded.stop();
  }
}

/** Seconds of a load of safetensors files into host memory until every byte was read. */
const loadSeconds = async (loader: string, paths: string[]): Promise<number> =>
  Number(await run(python, [loadOnce, loader, ...paths]));

/** Against the fastest of the other loaders that are installed (scripts/bench-python.sh installs them). */
async function loads(around: Surroundings): Promise<void> {
  if (spawnSync(python, ['-c', 'import hearth, safetensors']).status !== 0)
    throw new Error(`${python} has no loaders; scripts/bench-python.sh installs them`);
  const native = makeSafetensors(join(around.directory, 'preloaded-tensors'), parts, around.bytes);
  const rivals = (await run(python, [loadOnce, 'available', ...native])).trim().split('\n');
  const preloaded = await Preloaded.start(around, 'tensors', native);
  try {
    await around.row({
      id: 'load-preloaded',
      what: `first load of a preloaded model's safetensors files (mapped=True), every byte read, against the best of ${rivals.join(', ')} with the files in the page cache`,
      unit: 's',
      better: 'less',
      target: 1,
      sides: {
        value: () => preloaded.first((paths) => loadSeconds('hearth, mapped', paths)),
        baseline: async () => {
          const taken: number[] = [];
          for (const rival of rivals) taken.push(await loadSeconds(rival, native));
          return Math.min(...taken);
        },
      },
    });
  } finally {
    await preloaded.stop();
  }
}

/** First reads after a warm job, by the mount that `hearth mount` chooses, against second ones of the native file system. */
export const preloaded: Group = {
  ids: ['preloaded-'],
  ownOnly: true,
  measure: (around) => whileHostKeepsMemory(() => reads(around)),
};

/** Needs a Python environment with other loaders. */
export const preloadedLoad: Group = {
  ids: ['load-preloaded'],
  long: true,
  ownOnly: true,
  measure: (around) => whileHostKeepsMemory(() => loads(around)),
};
