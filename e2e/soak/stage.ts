import { mkdirSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { Nginx, OriginGate } from '@hearth/common/testing/origins';

export const readerProgram = join(root, 'build/release/bench/hearth_soak_reader');

/** A file of the dataset, and the pattern that its bytes are of. */
export interface SoakFile {
  name: string;
  bytes: number;
  /** The state that it has now; the first one is that of all files but the changing one for ever. */
  seed: number;
}

export interface StageOptions {
  agents: string[];
  bytes: number;
  files: number;
  /** Ends the building too. */
  signal: AbortSignal;
}

/** How an agent serves its mount: by the daemon alone every byte is checked, so that bits may be flipped on its disk. */
export type DataPath = 'fuse' | 'daemon';

const datasetName = 'soak';
const changingName = 'changing';
const firstChanging = 1_000_000;

/**
 * Four agents with a disk of their own each (a loop device, so that it can be filled), a holder, an nginx behind a gate as
 * origin and a dataset of three times their budgets, mounted on each.
 */
export class Stage implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly files: SoakFile[];
  /** Of a dataset of its own, which changes at the origin. */
  readonly changing: SoakFile;
  readonly #options: StageOptions;
  readonly #origin: string;
  #nginx: Nginx | undefined;
  #gate: OriginGate | undefined;

  private constructor(cluster: Cluster, options: StageOptions) {
    this.cluster = cluster;
    this.#options = options;
    this.#origin = join(cluster.folder, 'origin');
    const bytes = Math.floor(options.bytes / options.files);
    this.files = Array.from({ length: options.files }, (_, index) => ({
      name: `part-${String(index).padStart(2, '0')}.bin`,
      // Of no round size: the last chunk, block and page are shorter.
      bytes: bytes + 17 * index,
      seed: index + 1,
    }));
    this.changing = { name: changingName, bytes: 24 * 2 ** 20 + 5, seed: firstChanging };
  }

  static async start(options: StageOptions): Promise<Stage> {
    const cluster = await Cluster.start([], { holder: true });
    const stage = new Stage(cluster, options);
    try {
      await stage.#build();
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  get agents(): readonly string[] {
    return this.#options.agents;
  }

  /** All but the first, whose memory shows what leaks: nothing of it is lost with a process. */
  get restarted(): readonly string[] {
    return this.agents.slice(1);
  }

  /** The last agent's files are not given to the kernel. */
  dataPathOf(agent: string): DataPath {
    return agent === this.agents.at(-1) ? 'daemon' : 'fuse';
  }

  diskOf(agent: string): string {
    return join(this.cluster.folder, `disk-${agent}`);
  }

  mountOf(agent: string): string {
    return join(this.cluster.folder, 'mnt', agent);
  }

  /** Words of the reader for all files of a mount. */
  filesOf(agent: string): string[] {
    return this.files.map(({ name, seed }) => `${join(this.mountOf(agent), name)}=${seed}`);
  }

  /** The changing file in all states that it has had and the one that it may get meanwhile. */
  changingFile(): string {
    const states = Array.from({ length: this.changing.seed - firstChanging + 2 }, (_, index) => firstChanging + index);
    return `${join(this.mountOf(changingName), changingName)}=${states.join(',')}`;
  }

  /** Replaces the changing file at the origin by its next state, at once. */
  async changeOrigin(): Promise<void> {
    this.changing.seed++;
    await this.#write(this.changing, 'next');
    renameSync(join(this.#origin, 'next'), join(this.#origin, changingName));
  }

  /** Lists the changing file as it is now, and mounts that revision in place of the one before; false: not now. */
  async mountChanging(): Promise<boolean> {
    const [agent = ''] = this.agents;
    const target = this.cluster.mountPoint(changingName);
    await this.cluster.hearth(agent, 'umount', target);
    for (const words of [
      ['dataset', 'add', changingName, `${this.#url}/${changingName}`, '--allow-private'],
      ['mount', changingName, target, '--data-path', 'fuse'],
    ]) {
      if ((await this.cluster.hearth(agent, ...words)).code !== 0) return false; // the agent is away
    }
    return true;
  }

  /** Programs that ended though they were not to. */
  endedByThemselves(): string[] {
    return [...this.cluster.endedByThemselves(), ...(this.#nginx?.ended === true ? ['nginx ended by itself'] : [])];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#gate?.close();
    await this.#nginx?.stop();
    await this.cluster.close(); // its disks too, which are mounted below its folder
  }

  /** Of the origin. */
  get gate(): OriginGate {
    if (this.#gate === undefined) throw new Error('the origin does not run');
    return this.#gate;
  }

  get #url(): string {
    return this.gate.url;
  }

  async #build(): Promise<void> {
    const { agents, bytes, signal } = this.#options;
    const budget = Math.floor(bytes / 3);
    mkdirSync(this.#origin);
    for (const file of [...this.files, this.changing]) await this.#write(file, file.name);
    signal.throwIfAborted();
    this.#nginx = await Nginx.start(join(this.cluster.folder, 'nginx'), this.#origin);
    this.#gate = await OriginGate.start(this.#nginx.url);
    for (const agent of agents) {
      signal.throwIfAborted();
      const disk = await this.#makeDisk(agent, Math.floor(budget * 1.3) + 64 * 2 ** 20);
      await this.cluster.add(agent, {
        cacheDirectories: `${join(disk, 'cache')}=${budget}B:${16 * 2 ** 20}B`,
        // So that what is flipped is found within the run.
        flags: ['--engine-scrub-rate', '64MiB'],
      });
    }
    const [first = ''] = agents;
    const urls = this.files.map(({ name }) => `${this.#url}/${name}`);
    await this.cluster.json(first, 'dataset', 'add', datasetName, ...urls, '--allow-private');
    for (const agent of agents) {
      signal.throwIfAborted();
      const target = this.cluster.mountPoint(agent);
      await until(`agent ${agent} knows the dataset`, async () => {
        const { code } = await this.cluster.hearth(agent, 'ls', datasetName);
        return code === 0;
      });
      await this.cluster.json(agent, 'mount', datasetName, target, '--data-path', this.dataPathOf(agent));
    }
  }

  async #write({ bytes, seed }: SoakFile, name: string): Promise<void> {
    const written = await run(readerProgram, ['write', `${seed}`, `${bytes}`, join(this.#origin, name)]);
    if (written.code !== 0) throw new Error(`the origin cannot be written: ${written.stderr}`);
  }

  async #makeDisk(agent: string, bytes: number): Promise<string> {
    const image = join(this.cluster.folder, `${agent}.img`);
    const folder = this.diskOf(agent);
    writeFileSync(image, '');
    truncateSync(image, bytes);
    mkdirSync(folder);
    for (const [program, ...args] of [
      ['mkfs.ext4', '-q', '-F', '-m', '0', image],
      ['mount', '-o', 'loop', image, folder],
    ] as [string, ...string[]][]) {
      const { code, stderr } = await run(program, args);
      if (code !== 0) throw new Error(`${program} failed: ${stderr.trim()}`);
    }
    return folder;
  }
}
