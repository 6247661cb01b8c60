import { errorTable } from '@hearth/common';
import type { Statistics } from '@hearth/engine';
import type { FakeEngine } from './fake_engine.ts';

/** What a fake engine counts; of all else it has seen nothing. */
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
    })),
    contentKeys: engine.disk.resident.size,
    residentBytes: resident,
    pinnedBytes: 0n,
    originBytes: jobs.reduce((sum, job) => sum + job.originBytes, 0n),
    originRequests: 0n,
    originRetries: 0n,
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
    longestQueue: 0,
    peers: [...engine.peerErrors].map(([node, error]) => ({
      node,
      connected: false,
      streams: 0,
      bytesReceived: 0n,
      wireVersion: 0,
      featuresOff: '',
      error,
    })),
  };
}
