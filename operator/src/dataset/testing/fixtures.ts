import { Dataset as AgentDataset, type DatasetResidency } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Condition, Dataset, DatasetSpec, DatasetStatus } from '@hearth/common/resources';
import type { ObservedDataset } from '../observation.ts';

export const manifest = 'a'.repeat(64);
export const now = Date.UTC(2026, 0, 1, 12);

export function dataset(spec: Partial<DatasetSpec> = {}, status?: DatasetStatus, generation = 1): Dataset {
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'Dataset',
    metadata: { namespace: 'team', name: 'llama', uid: 'u-1', generation },
    spec: {
      source: { hub: { endpoint: 'https://hub', repoType: 'model', repo: 'o/m', revision: 'main', layout: 'files' } },
      include: [],
      exclude: [],
      unusableNames: 'Fail',
      weakValidators: 'Refuse',
      lastCopy: 'Drop',
      ...spec,
    },
    ...(status === undefined ? {} : { status }),
  };
}

export function written(
  type: string,
  status: Condition['status'],
  reason: string,
  message = 'as it was',
  observedGeneration = 1,
): Condition {
  return { type, status, reason, message, observedGeneration, lastTransitionTime: '2026-01-01T00:00:00Z' };
}

/** The status of a Dataset that agents know and that can be used. */
export function readyStatus(fields: Partial<DatasetStatus> = {}): DatasetStatus {
  return {
    cluster: 'main',
    manifest,
    files: 3,
    bytes: 1000,
    refreshedAt: '2026-01-01T11:59:00Z',
    conditions: [
      written('Ready', 'True', 'Ready'),
      written('ClusterResolved', 'True', 'Resolved'),
      written('Registered', 'True', 'Registered'),
    ],
    ...fields,
  };
}

export function agentDataset(fields: Partial<Omit<AgentDataset, 'source'>> = {}): AgentDataset {
  return AgentDataset.fromPartial({
    name: 'team.llama',
    manifest,
    revision: 'abc',
    files: 3n,
    bytes: 1000n,
    state: 'Ready',
    ...fields,
  } as never);
}

export function residency(node: string, residentBytes: bigint): DatasetResidency {
  return {
    node,
    residentBytes,
    memoryBytes: 0n,
    completeFiles: 0n,
    pinned: false,
    dataPath: 'view',
    reason: '',
    sourcesAside: [],
  };
}

/** A StorageCluster `main` whose agents answer and know nothing. */
export function observed(fields: Partial<ObservedDataset> = {}): ObservedDataset {
  return {
    now,
    choice: { kind: 'found', cluster: { name: 'main', directoryPrefixes: ['/data'] } },
    secret: undefined,
    secretStaleInMs: 0,
    grantCommand: 'kubectl create rolebinding ...',
    agents: { connected: true, dataset: undefined },
    attempt: undefined,
    sent: undefined,
    holdMs: 0,
    ...fields,
  };
}
