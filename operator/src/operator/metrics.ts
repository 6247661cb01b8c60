import { collectDefaultMetrics, Gauge, Registry } from '@prometheus-io/client';
import type { Agents } from '../agents/index.ts';
import { allReflectors, type Reflectors } from './reflectors.ts';

export type MetricsSource = { reflectors: Reflectors; agents: Agents; isLeader: () => boolean };

export class OperatorMetrics {
  readonly registry = new Registry();

  constructor({ reflectors, agents, isLeader }: MetricsSource) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    new Gauge({
      name: 'hearth_operator_leader',
      help: '1 on the leader, 0 on other replicas.',
      registers,
      collect() {
        this.set(isLeader() ? 1 : 0);
      },
    });
    new Gauge({
      name: 'hearth_operator_objects',
      help: 'Known objects of the API server, by reflector.',
      labelNames: ['reflector'],
      registers,
      collect() {
        for (const [name, reflector] of allReflectors(reflectors)) this.set({ reflector: name }, reflector.size);
      },
    });
    new Gauge({
      name: 'hearth_operator_agents_connected',
      help: '1 while an agent of the StorageCluster reports to the operator.',
      labelNames: ['cluster'],
      registers,
      collect() {
        this.reset();
        for (const name of reflectors.clusters.keys()) {
          const known = agents.get(name);
          if (known !== undefined) this.set({ cluster: name }, known.status?.connected === true ? 1 : 0);
        }
      },
    });
  }

  async scrape(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.registry.contentType, text: await this.registry.metrics() };
  }
}
