import { until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

/** Three agents and a scratch volume, mounted on each; the first agent leads it. */
export class ThreeMounts {
  static async start(): Promise<ThreeMounts> {
    const agents = ['a', 'b', 'c'];
    const cluster = await Cluster.start(agents, { holder: true });
    try {
      await cluster.allReady();
      // Nothing here fails, however slow the machine is.
      await cluster.json('a', 'volume', 'create', 'kv', '--size', '10Gi', '--deadline', '5m');
      await until('an agent leads it', async () => {
        return (await cluster.json<{ state: string }>('c', 'volume', 'show', 'kv')).state === 'Ready';
      });
      const mounts = agents.map((agent) => cluster.mountPoint(agent));
      for (const [index, agent] of agents.entries()) {
        await cluster.json(agent, 'mount', 'volume:kv', mounts[index] ?? '');
      }
      return new ThreeMounts(cluster, mounts);
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  readonly cluster: Cluster;
  /** By the order of the agents. */
  readonly paths: readonly string[];

  private constructor(cluster: Cluster, paths: readonly string[]) {
    this.cluster = cluster;
    this.paths = paths;
  }

  async close(): Promise<void> {
    await this.cluster.close();
  }
}
