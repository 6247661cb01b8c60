import { root, until } from '@hearth/common/testing';
import { Cluster as Agents } from '@hearth/common/testing/agents';
import { run } from './command.ts';
import type { Place } from './network.ts';

export interface ClusterOptions {
  /** The checkout, built, whose programs run; this one unless given. */
  release?: string;
  /** Of each agent; all are on loopback unless given. */
  placeOf?: ((node: string) => Place) | undefined;
}

/** Agents with a budget, and a mount holder, below one folder: on loopback, or each agent in a place of its own. */
export class Cluster {
  readonly nodes: string[];
  readonly #agents: Agents;
  readonly #release: string;

  private constructor(agents: Agents, release: string) {
    this.nodes = [...agents.agents.keys()];
    this.#agents = agents;
    this.#release = release;
  }

  static async start(
    folder: string,
    nodes: string[],
    budgetBytes: number,
    { release = root, placeOf }: ClusterOptions = {},
  ): Promise<Cluster> {
    const agents = await Agents.start(nodes, {
      folder,
      release,
      commandLine: release,
      holder: true,
      clusterName: 'bench',
      log: true,
      flags: ['--log-level', 'warn'],
      settingsOf: (node) => {
        const place = placeOf?.(node);
        const elsewhere = place === undefined ? {} : { launcher: place.launcher, address: place.address };
        return { ...elsewhere, cacheDirectories: `${folder}/cache-${node}=${budgetBytes}:1GiB` };
      },
    });
    const cluster = new Cluster(agents, release);
    try {
      await agents.allReady();
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

  async mount(dataset: string, dataPath: 'view' | 'fuse' | 'daemon'): Promise<string> {
    const target = this.#agents.mountPoint(`${dataset}-${dataPath}`);
    await this.hearth(['mount', dataset, target, '--data-path', dataPath]);
    return target;
  }

  async unmount(target: string): Promise<void> {
    await this.hearth(['umount', target]);
  }

  /** Does something while the mount holder is stopped, as by a machine that has no time for it. */
  withoutHolder<T>(work: () => Promise<T>): Promise<T> {
    return this.#agents.withoutHolder(work);
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

  /** MiB of an agent. */
  residentMemory(node: string): number {
    return this.#agents.agent(node).residentMemory() / 2 ** 20;
  }

  /** Unmounts and ends everything that it started; never throws, because it is the way out. */
  async stop(): Promise<void> {
    await this.#agents.close().catch(console.error);
  }
}

interface Status {
  datasets: { name: string; residency: { residentBytes: number }[] }[];
}
