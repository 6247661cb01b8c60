import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, until } from '@hearth/common/testing';
import { Cluster as Agents } from '@hearth/common/testing/agents';
import { run } from './command.ts';
import type { Place } from './network.ts';
import { processorSeconds, threadSeconds } from './processor_time.ts';

export interface ClusterOptions {
  /** The checkout, built, whose programs run; this one unless given. */
  release?: string;
  /** Of each agent; all are on loopback unless given. */
  placeOf?: ((node: string) => Place) | undefined;
  /** Of each agent's memory for chunks; as agents have it unless given. */
  memoryBytes?: number | undefined;
  /** Of each agent's memory for whole files; as agents have it unless given. */
  filesBytes?: number | undefined;
}

/** Of a warm job that has ended, in seconds since its creation. */
interface Arrival {
  secondsToMemory: number;
  secondsToStored: number;
}

/** Agents with a budget, and a mount holder, below one folder: on loopback, or each agent in a place of its own. */
export class Cluster {
  readonly nodes: string[];
  readonly #agents: Agents;
  readonly #release: string;
  readonly #placeOf: ClusterOptions['placeOf'];

  private constructor(agents: Agents, { release = root, placeOf }: ClusterOptions) {
    this.nodes = [...agents.agents.keys()];
    this.#agents = agents;
    this.#release = release;
    this.#placeOf = placeOf;
  }

  static async start(
    folder: string,
    nodes: string[],
    budgetBytes: number,
    options: ClusterOptions = {},
  ): Promise<Cluster> {
    const { release = root, placeOf, memoryBytes, filesBytes } = options;
    const agents = await Agents.start(nodes, {
      folder,
      release,
      commandLine: release,
      holder: true,
      clusterName: 'bench',
      log: true,
      flags: [
        ...['--log-level', 'warn'],
        ...sizeFlag('--engine-buffer-bytes', memoryBytes),
        ...sizeFlag('--engine-memory-bytes', filesBytes),
      ],
      settingsOf: (node) => {
        const place = placeOf?.(node);
        const elsewhere = place === undefined ? {} : { launcher: place.launcher, address: place.address };
        return { ...elsewhere, cacheDirectories: `${folder}/cache-${node}=${budgetBytes}:1GiB` };
      },
    });
    const cluster = new Cluster(agents, options);
    try {
      await agents.allReady();
      for (const node of nodes) await cluster.#memoryIsThere(node);
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  /** Runs the command line against a node's agent; the first node's by default. */
  hearth(args: string[], node = this.nodes[0] ?? ''): Promise<string> {
    const asked = ['--socket', this.#agents.agent(node).socket, '--timeout', '300'];
    return run(`${this.#release}/cli/bin/hearth`, [...asked, ...args]);
  }

  /** Of a node's agent, for programs of libgd2fs. */
  clientAddressOf(node: string): string {
    return `gd2fs://127.0.0.1:${this.#agents.agent(node).wirePort}`;
  }

  /** A token for reading and writing a volume, for programs of libgd2fs. */
  async volumeToken(volume: string): Promise<string> {
    const file = join(this.#agents.folder, 'client.yaml');
    writeFileSync(file, `cluster: bench\nsecretFile: ${join(this.#agents.folder, 'secret')}\n`);
    const words = ['token', `volume:${volume}`, '--right', 'read', 'write', '--config', file];
    return (await run(`${this.#release}/cli/bin/hearth`, words)).trim();
  }

  /** Of a node's control API. */
  socketOf(node: string): string {
    return this.#agents.agent(node).socket;
  }

  async mount(dataset: string, dataPath: 'view' | 'fuse' | 'daemon', node = this.nodes[0] ?? ''): Promise<string> {
    const target = this.#agents.mountPoint(`${dataset}-${dataPath}-${node}`);
    await this.hearth(['mount', dataset, target, '--data-path', dataPath], node);
    return target;
  }

  /** By the data path that the agent chooses. */
  async mountBest(dataset: string, node = this.nodes[0] ?? ''): Promise<string> {
    const target = this.#agents.mountPoint(`${dataset}-best-${node}`);
    await this.hearth(['mount', dataset, target], node);
    return target;
  }

  async unmount(target: string, node = this.nodes[0] ?? ''): Promise<void> {
    await this.hearth(['umount', target], node);
  }

  /** Waits until an agent leads the volume. */
  async volumeIsReady(name: string): Promise<void> {
    await until(`the volume ${name} has a leader`, async () => {
      return (JSON.parse(await this.hearth(['--json', 'volume', 'show', name])) as { state: string }).state === 'Ready';
    });
  }

  /** Does something while the mount holder is stopped, as by a machine that has no time for it. */
  withoutHolder<T>(work: () => Promise<T>): Promise<T> {
    return this.#agents.withoutHolder(work);
  }

  /** To the process of an agent. */
  signal(node: string, signal: 'SIGSTOP' | 'SIGCONT'): void {
    process.kill(this.#agents.agent(node).pid, signal);
  }

  /** Does something while a node's agent does not run, and waits until it does again. */
  async withoutAgent(node: string, work: () => Promise<void>): Promise<void> {
    const agent = this.#agents.agent(node);
    await agent.stop();
    await work();
    await agent.start();
    await this.#agents.allReady();
  }

  /** The first cache directory of a node's agent. */
  cacheOf(node: string): string {
    return join(this.#agents.folder, `cache-${node}`);
  }

  /** Drops a dataset's bytes on all nodes; an error when something stays, for then nothing would be cold. */
  async evict(dataset: string): Promise<void> {
    await until(`no byte of ${dataset} is cached`, async () => {
      await this.hearth(['evict', dataset]);
      const { datasets } = JSON.parse(await this.hearth(['--json', 'status'])) as Status;
      const residency = datasets.find(({ name }) => name === dataset)?.residency ?? [];
      return residency.every(({ residentBytes }) => residentBytes === 0);
    });
  }

  /**
   * Seconds from the creation of a job that warms a dataset onto all nodes until all of it is stored, as the agents say: claimed,
   * compared with the digests that its origin gives, and linked into a view. `checksum`: also read back from the disk.
   */
  async secondsToStored(dataset: string, verify: 'none' | 'checksum'): Promise<number> {
    return (await this.#warm(dataset, verify)).secondsToStored;
  }

  /** Seconds from the creation of such a job until all of the dataset is in the memory of all nodes, as the agents say. */
  async secondsToMemory(dataset: string): Promise<number> {
    return (await this.#warm(dataset, 'none')).secondsToMemory;
  }

  async #warm(dataset: string, verify: 'none' | 'checksum'): Promise<Arrival> {
    const lines = (await this.hearth(['--json', 'warm', dataset, '--verify', verify])).trim().split('\n');
    return JSON.parse(lines.at(-1) ?? '') as Arrival;
  }

  /** Bytes of a dataset that an agent holds, as it has last counted them: every two seconds. 0: it knows of none. */
  async residentBytes(node: string, dataset: string): Promise<number> {
    const metric = await this.#metrics(node);
    return Number(metric(`dataset_resident_bytes{dataset="${dataset}"}`) ?? 0);
  }

  /** Pages come in the background after the start, which takes a processor meanwhile. */
  async #memoryIsThere(node: string): Promise<void> {
    await until(`the memory of ${node} has come`, async () => {
      // Neither is known of releases whose memory is there at the start.
      const metric = await this.#metrics(node);
      return metric('arena_committed_bytes') === metric('arena_bytes');
    });
  }

  /** Values by name, without its prefix and with its labels. Nothing where the agent has no such metric. */
  async #metrics(node: string): Promise<(name: string) => string | undefined> {
    const url = `http://127.0.0.1:${this.#agents.agent(node).healthPort}/metrics`;
    // The loopback is the one of the agent's namespace.
    const [program = '', ...words] = [...(this.#placeOf?.(node).launcher ?? []), 'curl', '-sSf', url];
    const text = await run(program, words);
    const lines = text.split('\n');
    return (name) => lines.find((each) => each.startsWith(`hearth_${name} `))?.slice(`hearth_${name} `.length);
  }

  /** MiB of an agent. */
  residentMemory(node: string): number {
    return this.#agents.agent(node).residentMemory() / 2 ** 20;
  }

  /** User and system time of an agent so far; the first one by default. */
  processorSeconds(node = this.nodes[0] ?? ''): number {
    return processorSeconds(this.#agents.agent(node).pid);
  }

  /** The same of each of its event loops. */
  eventLoopSeconds(node: string): number[] {
    return threadSeconds(this.#agents.agent(node).pid, /^hearth-shard-/);
  }

  /** Unmounts and ends everything that it started; never throws, because it is the way out. */
  async stop(): Promise<void> {
    await this.#agents.close().catch(console.error);
  }
}

const sizeFlag = (flag: string, bytes: number | undefined): string[] =>
  bytes === undefined ? [] : [flag, `${Math.ceil(bytes / 2 ** 20)}MiB`];

interface Status {
  datasets: { name: string; residency: { residentBytes: number }[] }[];
}
