import type { Logger } from '@hearth/common';
import type { EventRecorder, KubernetesClient } from '@hearth/common/kubernetes';
import type { Dataset, NodeCache, StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { NodeFacts, Placements, Source } from '../kubernetes/index.ts';

/** What the leader gives its controllers, each of which runs until its signal aborts. The reflectors run already. */
export interface ControllerParts {
  api: KubernetesClient;
  agents: Agents;
  clusters: Source<StorageCluster>;
  datasets: Source<Dataset>;
  caches: Source<NodeCache>;
  nodes: Source<NodeFacts>;
  /** Of these clusters and nodes. */
  placements: Placements;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}
