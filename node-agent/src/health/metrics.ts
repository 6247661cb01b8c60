import { Counter, Gauge, Registry } from '@prometheus-io/client';
import type { Agent } from '../agent/index.ts';
import { agentRows } from './agent_rows.ts';
import { arenaRows } from './arena_rows.ts';
import { copyRows } from './copy_rows.ts';
import { CountedHistogram } from './counted_histogram.ts';
import { FreeSpace } from './free_space.ts';
import { limitRows } from './limit_rows.ts';
import { memoryFilesRows } from './memory_files_rows.ts';
import { type MetricRow, ofDirectories, ofEngine, row, type Seen } from './metric_row.ts';
import { originRows } from './origin_rows.ts';
import { peerRows } from './peer_rows.ts';
import { rdmaRows } from './rdma_rows.ts';
import { sourceRows } from './source_rows.ts';
import { volumeRows } from './volume_rows.ts';

/** All metrics of an agent; docs/metrics.md is generated from this table. */
export const metricRows: readonly MetricRow[] = [
  row(
    'gauge',
    'uptime_seconds',
    'Seconds since the engine started.',
    ofEngine((s) => s.uptimeSeconds),
  ),
  row(
    'gauge',
    'engine_info',
    'Always 1; the labels are the waiting mechanism of the engine and its number of shards.',
    ({ statistics }) => [[[statistics.backend, String(statistics.shards)], 1]],
    ['backend', 'shards'],
  ),
  row(
    'gauge',
    'cache_budget_bytes',
    'Hard limit of a cache directory.',
    ofDirectories((d) => d.budgetBytes),
    ['directory'],
  ),
  row(
    'gauge',
    'cache_used_bytes',
    'Bytes that a cache directory has allocated.',
    ofDirectories((d) => d.usedBytes),
    ['directory'],
  ),
  row(
    'gauge',
    'cache_free_floor_bytes',
    'Free space that a cache directory leaves to its file system.',
    ofDirectories((d) => d.freeFloorBytes),
    ['directory'],
  ),
  row(
    'gauge',
    'cache_file_system_free_bytes',
    'Free space of the file system of a cache directory.',
    ofDirectories((d) => d.fileSystemFreeBytes),
    ['directory'],
  ),
  row(
    'gauge',
    'cache_directory_failing',
    '1: a cache directory takes no new files, because its disk fails; the log of the agent says why.',
    ofDirectories((d) => d.failure !== ''),
    ['directory'],
  ),
  row(
    'gauge',
    'content_keys',
    'Files in the cache, complete or not.',
    ofEngine((s) => s.contentKeys),
  ),
  row(
    'gauge',
    'resident_bytes',
    'Bytes of files in the cache.',
    ofEngine((s) => s.residentBytes),
  ),
  row(
    'gauge',
    'pinned_bytes',
    'Bytes of files that are never evicted.',
    ofEngine((s) => s.pinnedBytes),
  ),
  ...originRows,
  ...sourceRows,
  ...peerRows,
  ...rdmaRows,
  row(
    'counter',
    'corrupt_blocks_total',
    'Blocks with a wrong checksum; the agent fetched them again.',
    ofEngine((s) => s.corruptBlocks),
  ),
  row(
    'gauge',
    'residency_log_lost_bytes',
    "Unreadable bytes of the residency logs at the start; the agent's log names their positions.",
    ofEngine((s) => s.lostLogBytes),
  ),
  row(
    'gauge',
    'doubtful_files',
    'Files under verification because a damaged residency log may claim bytes that are missing.',
    ofEngine((s) => s.doubtfulFiles),
  ),
  row(
    'counter',
    'digest_mismatches_total',
    "Files dropped because they did not match their origin's digest.",
    ofEngine((s) => s.digestMismatches),
  ),
  row(
    'counter',
    'scrub_bytes_total',
    'Bytes of the cache read by the background scrub.',
    ofEngine((s) => s.scrubBytes),
  ),
  row(
    'counter',
    'scrub_bad_blocks_total',
    'Blocks that the scrub found corrupt on disk.',
    ofEngine((s) => s.scrubBadBlocks),
  ),
  row(
    'counter',
    'scrub_repaired_total',
    'Chunks with corrupt blocks that were fetched again.',
    ofEngine((s) => s.scrubRepairedChunks),
  ),
  row(
    'counter',
    'scrub_lost_total',
    'Chunks with corrupt blocks that no source could replace when the scrub found them; until then their files are incomplete.',
    ofEngine((s) => s.scrubLostChunks),
  ),
  row(
    'counter',
    'evicted_files_total',
    'Files evicted to make room or on demand.',
    ofEngine((s) => s.evictedFiles),
  ),
  row(
    'counter',
    'evicted_bytes_total',
    'Bytes of evicted files.',
    ofEngine((s) => s.evictedBytes),
  ),
  ...copyRows,
  row(
    'counter',
    'advice_total',
    'Advice accepted, by ioctl on mounts and by hearth advise.',
    ({ statistics: s }) => [
      [['willneed'], Number(s.willNeed)],
      [['dontneed'], Number(s.dontNeed)],
    ],
    ['advice'],
  ),
  row(
    'counter',
    'advice_bytes_total',
    'Bytes of files named by WILLNEED; bytes that this node released for DONTNEED.',
    ({ statistics: s }) => [
      [['willneed'], Number(s.willNeedBytes)],
      [['dontneed'], Number(s.dontNeedBytes)],
    ],
    ['advice'],
  ),
  row(
    'counter',
    'demand_reads_total',
    'Reads of applications served by the engine.',
    ofEngine((s) => s.demandReads),
  ),
  row(
    'counter',
    'demand_bytes_total',
    'Bytes of application reads served by the engine.',
    ofEngine((s) => s.demandBytes),
  ),
  row(
    'counter',
    'mount_errors_total',
    'Failed opens and reads through mounts, by error code; the log names each file at most once a minute.',
    ({ statistics }) => Object.entries(statistics.failedReads).map(([code, count]) => [[code], Number(count)]),
    ['code'],
  ),
  row(
    'counter',
    'directory_bypassed_total',
    'Reads of the origin without a grant, because no directory of the key answered.',
    ofEngine((s) => s.directoryBypassed),
  ),
  row(
    'counter',
    'directory_unanswered_total',
    'Requests to the directory of a key that an agent did not answer in time; the origin may be read twice.',
    ofEngine((s) => s.directoryUnanswered),
  ),
  row(
    'counter',
    'through_bytes_total',
    'Bytes fetched for readers but not cached, because the cache had no room or its disk failed.',
    ofEngine((s) => s.throughBytes),
  ),
  row(
    'gauge',
    'buffers_in_use',
    'Chunk buffers in use.',
    ofEngine((s) => s.buffersInUse),
  ),
  row(
    'gauge',
    'write_back_bytes',
    'Bytes in memory that are not written to the cache files yet.',
    ofEngine((s) => s.writeBackBytes),
  ),
  row(
    'gauge',
    'client_limit_bytes',
    'Maximum bytes in flight to clients over the network.',
    ofEngine((s) => s.clients.limitBytes),
  ),
  row(
    'gauge',
    'client_bytes',
    'Bytes in flight to clients over the network.',
    ofEngine((s) => s.clients.bytes),
  ),
  row(
    'gauge',
    'client_reads_waiting',
    'Reads of clients that wait for the limit of bytes in flight.',
    ofEngine((s) => s.clients.waiting),
  ),
  row(
    'counter',
    'client_reads_waited_total',
    'Reads of clients that had to wait for the limit of bytes in flight.',
    ofEngine((s) => s.clients.waited),
  ),
  ...limitRows,
  ...arenaRows,
  ...memoryFilesRows,
  ...volumeRows,
  row(
    'gauge',
    'longest_shard_queue',
    'Maximum number of calls that waited for one shard of the engine since the start.',
    ofEngine((s) => s.longestQueue),
  ),
  ...agentRows,
];

/** The metrics of an agent in the Prometheus text format, read at each scrape. */
export class AgentMetrics {
  readonly #agent: Agent;
  readonly #freeSpace = new FreeSpace();

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  /** Each scrape uses a new registry, because the engine does the counting. */
  async scrape(): Promise<{ contentType: string; text: string }> {
    const { engine } = this.#agent.context;
    const statistics = await this.#freeSpace.replaceIn(await engine.statistics());
    const hasVolumes = this.#agent.writableVolumeTables.list().length > 0;
    const volumes = hasVolumes ? await engine.volumeStatistics() : [];
    const seen: Seen = { statistics, volumes, agent: this.#agent };
    const registry = new Registry();
    for (const row of metricRows) {
      if (row.kind === 'histogram') {
        new CountedHistogram(row, seen, registry);
        continue;
      }
      const { kind, name, help, labels, read } = row;
      const options = { name, help, labelNames: labels, registers: [registry] };
      const values = read(seen);
      const labelled = (texts: string[]) =>
        Object.fromEntries(labels.map((label, index) => [label, texts[index] ?? '']));
      if (kind === 'gauge') {
        const gauge = new Gauge(options);
        for (const [texts, value] of values) gauge.set(labelled(texts), value);
      } else {
        const counter = new Counter(options);
        for (const [texts, value] of values) counter.inc(labelled(texts), value);
      }
    }
    return { contentType: registry.contentType, text: await registry.metrics() };
  }
}

/** docs/metrics.md, generated from the table. */
export function metricsDocument(): string {
  const rows = metricRows.map(
    ({ name, kind, labels, help }) => `| \`${name}\` | ${kind} | ${labels.join(', ')} | ${help} |`,
  );
  return [
    '# Metrics of the agent',
    '',
    '<!-- Written from node-agent/src/health/metrics.ts by node-agent/src/health/write_document.ts. -->',
    '',
    'In the text format of Prometheus at `/metrics` of the health address (`health.listen`). Counters begin at 0 with',
    'every start of the agent.',
    '',
    '| metric | kind | labels | meaning |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}
