import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '@hearth/common';
import { freePort } from '@hearth/common/testing';
import { type AgentSettings, Cluster } from '@hearth/common/testing/agents';
import { agentName, planCertificates } from '../../certificates/index.ts';
import type { SecretTexts } from '../../kubernetes/index.ts';
import { AgentDirectory, type AgentEndpoint } from '../index.ts';

/** Real agents of the StorageCluster `main` on this machine, which the operator's parts ask by mutual TLS. */
export class RealAgents {
  readonly hearth: Cluster;
  readonly directory = new AgentDirectory(silentLogger);
  readonly #endpoints: AgentEndpoint[] = [];
  readonly #operator: SecretTexts;
  readonly #flags: readonly string[];

  private constructor(hearth: Cluster, texts: { agent: SecretTexts; operator: SecretTexts }) {
    this.hearth = hearth;
    this.#operator = texts.operator;
    const files = { certificate: 'tls.crt', key: 'tls.key', 'client-authorities': 'ca.crt' };
    this.#flags = Object.entries(files).flatMap(([flag, key]) => {
      const path = join(hearth.folder, key);
      writeFileSync(path, texts.agent[key] ?? '');
      return [`--control-${flag}`, path];
    });
  }

  static async start(): Promise<RealAgents> {
    const { texts } = await planCertificates({ cluster: 'main', peers: [] }, {}, new Date());
    return new RealAgents(await Cluster.start([]), texts);
  }

  /** The agent of a node, when it is ready; from then on it is asked. */
  async add(node: string, settings: AgentSettings = {}): Promise<void> {
    const address = `127.0.0.1:${await freePort()}`;
    const flags = [...this.#flags, '--control-listen', address, ...(settings.flags ?? [])];
    await this.hearth.add(node, { ...settings, clusterName: 'main', flags });
    this.#endpoints.push({ node, address });
    this.#configure();
  }

  /** The operator's connections to agents end, as when its process does, and are made again. */
  async reconnect(): Promise<void> {
    await this.directory.forget('main');
    this.#configure();
  }

  async close(): Promise<void> {
    await this.directory.close();
    await this.hearth.close();
  }

  #configure(): void {
    const pair = { certificate: this.#operator['tls.crt'] ?? '', key: this.#operator['tls.key'] ?? '' };
    const identity = { ...pair, authorities: this.#operator['ca.crt'] ?? '', serverName: agentName('main') };
    this.directory.configure('main', identity, [...this.#endpoints]);
  }
}
