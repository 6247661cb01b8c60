import { errorTable } from '@hearth/common';
import type {
  BandwidthLimits,
  LimitOptions,
  LimitStatistics,
  PeerStatistics,
  RdmaPeerStatistics,
  Statistics,
} from '@hearth/engine';
import type { FakeEngine } from './fake_engine.ts';

/** Memory for chunks kept by the holder, at the first agent. */
/** As of an agent without memory for files. */
export const noMemoryFiles: Statistics['memoryFiles'] = {
  budgetBytes: 0n,
  usedBytes: 0n,
  hugeBytes: 0n,
  files: 0n,
  evictedFiles: 0n,
  evictedBytes: 0n,
  heldFiles: 0n,
  refusedFiles: 0n,
  off: 'engine.memoryBytes is 0',
  failure: '',
  noHugePages: '',
};

export const freshArena: Statistics['arena'] = {
  bytes: 512n << 20n,
  committedBytes: 0n,
  hugeBytes: 0n,
  pages: 'transparent',
  reason: '',
  unplaced: '',
  unkept: '',
  touchedByHolder: false,
  adopted: false,
  givenUp: '',
  smaller: '',
  foundBytes: 0n,
  quarantinedBytes: 0n,
  keptBytes: 0n,
  evictedFiles: 0n,
  movedBytes: 0n,
  loadedBytes: 0n,
};

export const rdmaOff: Statistics['rdma'] = { use: 'off', reason: '', ports: [], refused: [] };

/** RDMA statistics with a port and no peer. */
export const rdmaReady: Statistics['rdma'] = {
  use: 'auto',
  reason: '',
  ports: [
    {
      name: 'mlx5_0/1',
      active: true,
      used: true,
      hasWindows: true,
      link: 'RoCE v2',
      gid: '10.0.0.1',
      mtuBytes: 4096,
      bitsPerSecond: 100_000_000_000n,
      numaNode: 0,
      pciPath: '0000:17:00.0',
    },
  ],
  refused: [],
};

const noRdma: RdmaPeerStatistics = {
  port: '',
  reason: '',
  requests: 0n,
  bytesReceived: 0n,
  bytesSent: 0n,
  failures: 0n,
  rails: [],
};

const idle = { bytes: 0n, waitedSeconds: 0, waiting: 0 };

/** Counters of an agent whose limits never delayed anything. */
export function unusedLimits({ origin, peers, disk }: LimitOptions): LimitStatistics[] {
  const row = (what: LimitStatistics['what'], rates: BandwidthLimits): LimitStatistics => ({
    what,
    ...rates,
    classes: { demand: idle, warm: idle },
  });
  return [row('origin', origin), row('from-peers', peers), row('to-peers', peers), row('disk', disk)];
}

/** Counters of a fake engine; all others are zero. */
export function fakeStatistics(engine: FakeEngine): Statistics {
  const resident = [...engine.disk.resident.values()].reduce((a, b) => a + b, 0n);
  const jobs = [...engine.warms.values()].map((warm) => warm.progress);
  return {
    uptimeSeconds: 1,
    backend: 'epoll',
    shards: 1,
    directories: engine.options.cacheDirectories.map((directory) => ({
      ...directory,
      usedBytes: resident,
      fileSystemFreeBytes: directory.budgetBytes,
      failure: '',
      waiting: [],
      waitingFiles: 0,
    })),
    contentKeys: engine.disk.resident.size,
    residentBytes: resident,
    pinnedBytes: 0n,
    originBytes: jobs.reduce((sum, job) => sum + job.originBytes, 0n),
    originRequests: 0n,
    originRetries: 0n,
    originHedgedRequests: 0n,
    originHedgedBytes: 0n,
    originHedgesWon: 0n,
    originHosts: [],
    peerBytesReceived: jobs.reduce((sum, job) => sum + job.peerBytes, 0n),
    peerBytesSent: 0n,
    peerRequests: 0n,
    corruptBlocks: 0n,
    lostLogBytes: 0n,
    doubtfulFiles: 0n,
    digestMismatches: 0n,
    scrubBytes: 0n,
    scrubBadBlocks: 0n,
    scrubRepairedChunks: 0n,
    scrubLostChunks: 0n,
    evictedFiles: 0n,
    evictedBytes: 0n,
    copies: { redundant: 0n, last: 0n, unanswered: 0n, unasked: 0n, kept: 0n },
    willNeed: 0n,
    willNeedBytes: 0n,
    dontNeed: 0n,
    dontNeedBytes: 0n,
    demandReads: 0n,
    demandBytes: 0n,
    directoryBypassed: 0n,
    directoryUnanswered: 0n,
    throughBytes: 0n,
    failedReads: Object.fromEntries(
      Object.keys(errorTable)
        .filter((code) => code !== 'Ok')
        .map((code) => [code, 0n]),
    ) as Statistics['failedReads'],
    buffersInUse: 0,
    writeBackBytes: 0n,
    clients: { limitBytes: 0n, bytes: 0n, waiting: 0n, waited: 0n },
    limits: unusedLimits(engine.options.limits),
    arena: engine.arena,
    memoryFiles: engine.memoryFiles,
    longestQueue: 0,
    rdma: engine.rdma,
    peers: [...new Set([...engine.peerErrors.keys(), ...engine.peerRdma.keys()])].map((node) => peer(engine, node)),
  };
}

function peer(engine: FakeEngine, node: string): PeerStatistics {
  return {
    node,
    connected: false,
    streams: 0,
    bytesReceived: 0n,
    wireVersion: 0,
    featuresOff: '',
    hedged: 0n,
    paused: 0n,
    error: engine.peerErrors.get(node) ?? '',
    rdma: engine.peerRdma.get(node) ?? noRdma,
  };
}
