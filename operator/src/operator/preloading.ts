import type { Logger } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, systemClock } from '@hearth/common/kubernetes';
import type { Registry } from '@prometheus-io/client';
import type { Agents } from '../agents/index.ts';
import { GateController, GateMetrics } from '../gates/index.ts';
import { plan } from '../planner/index.ts';
import { PreloadMetrics, ReadinessCache, runPreloadController } from '../preload/index.ts';
import type { Reflectors } from './reflectors.ts';

export interface PreloadingOptions {
  api: KubernetesClient;
  /** Keeps gates from waiting behind writes of statuses. */
  urgentApi: KubernetesClient;
  agents: Agents;
  reflectors: Reflectors;
  events: EventRecorder;
  logger: Logger;
}

/** Metrics of preloads and gates, for the life of the replica. */
export class PreloadingMetrics {
  readonly gates: GateMetrics;
  readonly preloads: PreloadMetrics;

  constructor(registry: Registry, { pods, preloads }: Pick<Reflectors, 'pods' | 'preloads'>) {
    this.gates = new GateMetrics(registry, () => pods.all().filter(({ member }) => member?.gated !== undefined).length);
    this.preloads = new PreloadMetrics(registry, () => preloads.all());
  }
}

/** Runs on the leader until the signal aborts: gates plan and release pods, the executor brings the bytes. */
export async function runPreloading(
  { api, urgentApi, agents, reflectors, events, logger }: PreloadingOptions,
  metrics: PreloadingMetrics,
  signal: AbortSignal,
): Promise<void> {
  const { clusters, nodes, pods, claims, volumes, datasets, preloads } = reflectors;
  const readiness = new ReadinessCache();
  // The API server stamps pods and CachePreloads, so its clock gives their age.
  const clock = { ...systemClock, date: () => api.date() };
  const common = { agents, nodes, datasets, preloads, readiness, events, logger, clock };
  const sources = { pods, claims, volumes };
  const gates = new GateController({ ...common, ...sources, api: urgentApi, plan, metrics: metrics.gates });
  const { podGroups } = gates;
  await Promise.all([
    gates.run(signal),
    runPreloadController({ ...common, api, clusters, podGroups, metrics: metrics.preloads }, signal),
  ]);
}
