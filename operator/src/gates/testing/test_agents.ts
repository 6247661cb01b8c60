import { GetStatusResponse, type NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agents, ClusterAgents, ClusterStatus, StatusListener } from '../../agents/index.ts';
import { clusterStatus } from '../../agents/testing/cluster_status.ts';
import { nodeStatus } from '../../agents/testing/fake_agent.ts';
import { agentDataset } from '../../dataset/testing/fixtures.ts';

const budgetBytes = 1n << 40n;

/** Agents of a StorageCluster, as far as their status goes: who serves, and which bytes are where. */
export class TestAgents implements Agents {
  readonly cluster: string;
  #status: ClusterStatus | undefined;
  readonly #nodes = new Map<string, NodeStatus>();
  /** Size by name. */
  readonly #datasets = new Map<string, bigint>();
  readonly #listeners = new Set<StatusListener>();

  constructor(cluster: string) {
    this.cluster = cluster;
  }

  get(cluster: string): ClusterAgents | undefined {
    if (cluster !== this.cluster) return undefined;
    const unused = () => {
      throw new Error('these agents tell their status only');
    };
    return { cluster, status: this.#status, trouble: undefined, call: unused, stream: unused };
  }

  onChange(listener: StatusListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Agents serve on these nodes, and have nothing. */
  serve(...nodes: string[]): void {
    for (const node of nodes) this.#nodes.set(node, nodeStatus(node, { budgetBytes }));
    this.#tell();
  }

  /** The agent there says that it does not serve. */
  lose(node: string): void {
    const known = this.#nodes.get(node) ?? nodeStatus(node, { budgetBytes });
    this.#nodes.set(node, { ...known, ready: false, reason: 'its disk is gone' });
    this.#tell();
  }

  /** The node has so much of a dataset (`NAMESPACE.NAME`) of this size. */
  hold(node: string, dataset: string, bytes: bigint, size = bytes): void {
    const known = this.#nodes.get(node) ?? nodeStatus(node, { budgetBytes });
    this.#nodes.set(node, { ...known, residentBytes: { ...known.residentBytes, [dataset]: bytes } });
    this.#datasets.set(dataset, size);
    this.#tell();
  }

  percentOf(node: string, dataset: string): number {
    const size = this.#datasets.get(dataset) ?? 0n;
    const bytes = this.#nodes.get(node)?.residentBytes[dataset] ?? 0n;
    return size === 0n ? 0 : Number((bytes * 100n) / size);
  }

  #tell(): void {
    const datasets = [...this.#datasets].map(([name, bytes]) => {
      const residency = [...this.#nodes.values()].map(({ node, residentBytes }) => ({
        node,
        residentBytes: residentBytes[name] ?? 0n,
      }));
      return agentDataset({ name, bytes, residency: residency as never });
    });
    const before = this.#status;
    const message = GetStatusResponse.fromPartial({ nodes: [...this.#nodes.values()], datasets } as never);
    this.#status = clusterStatus(message, Date.now());
    for (const listener of this.#listeners) listener(this.cluster, before, this.#status);
  }
}
