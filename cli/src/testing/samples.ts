import { Dataset, MountRecord, NodeStatus, VerifiedFile, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';

const gib = 1n << 30n;

/** Messages as an agent would send them; tests change what they are about. */
export const sampleDataset = (changes: Partial<Dataset> = {}): Dataset =>
  Dataset.fromPartial({
    name: 'llama',
    source: {
      kind: { $case: 'hub', value: { repoType: 'model', repo: 'org/llama', revision: 'main' } },
      unusableNames: 'Fail',
    },
    manifest: 'ab'.repeat(32),
    revision: 'c0ffee',
    files: 4n,
    bytes: 3n * gib,
    state: 'Ready',
    createdAt: '2026-01-02T03:04:05Z',
    residency: [
      { node: 'a', residentBytes: 3n * gib, memoryBytes: 2n * gib, completeFiles: 4n, pinned: true, dataPath: 'view' },
      { node: 'b', residentBytes: gib, completeFiles: 1n, dataPath: 'daemon', reason: 'not complete' },
    ],
    ...changes,
  });

export const sampleJob = (changes: Partial<WarmJob> = {}): WarmJob =>
  WarmJob.fromPartial({
    name: 'warm-llama-1',
    dataset: 'llama',
    manifest: 'ab'.repeat(32),
    state: 'Running',
    bytesTotal: 6n * gib,
    bytesReady: 3n * gib,
    bytesPerSecond: gib / 2n,
    secondsLeft: 6n,
    createdAt: '2026-01-02T03:04:05Z',
    nodes: [
      {
        node: 'a',
        state: 'Verifying',
        bytesTotal: 3n * gib,
        bytesReady: 3n * gib,
        filesTotal: 4n,
        filesReady: 4n,
        filesVerified: 2n,
        originBytes: 2n * gib,
        peerBytes: gib,
      },
      { node: 'node-b', state: 'Running', bytesTotal: 3n * gib, bytesReady: 0n, filesTotal: 4n },
    ],
    ...changes,
  });

export const sampleNode = (changes: Partial<NodeStatus> = {}): NodeStatus =>
  NodeStatus.fromPartial({
    node: 'a',
    ready: true,
    zone: 'z1',
    budgetBytes: 100n * gib,
    usedBytes: 25n * gib,
    freeBytes: 500n * gib,
    originBytes: 3n * gib,
    version: '0.1.0',
    uptimeSeconds: 3700n,
    residentBytes: { llama: 3n * gib },
    capabilities: [{ name: 'rdma', ready: false, reason: 'no device' }],
    ...changes,
  });

export const sampleMount = (changes: Partial<MountRecord> = {}): MountRecord =>
  MountRecord.fromPartial({
    target: '/mnt/llama',
    dataset: 'llama',
    manifest: 'ab'.repeat(32),
    dataPath: 'fuse',
    reason: 'not complete',
    readsServed: 12n,
    bytesServed: gib,
    daemonOpens: 2n,
    ...changes,
  });

export const sampleFile = (changes: Partial<VerifiedFile> = {}): VerifiedFile =>
  VerifiedFile.fromPartial({
    path: 'model.safetensors',
    bytes: 3n * gib,
    sha256: 'cd'.repeat(32),
    ok: true,
    localBytes: 3n * gib,
    dataPath: 'view',
    ...changes,
  });
