import { type MetricRow, ofEngine, row } from './metric_row.ts';

/** Metrics of the memory for chunks. */
export const arenaRows: readonly MetricRow[] = [
  row(
    'gauge',
    'arena_bytes',
    'Memory for chunks.',
    ofEngine((s) => s.arena.bytes),
  ),
  row(
    'gauge',
    'arena_committed_bytes',
    'Memory for chunks that the kernel has allocated and charges for.',
    ofEngine((s) => s.arena.committedBytes),
  ),
  row(
    'gauge',
    'arena_huge_bytes',
    'Memory for chunks in pages of 2 MiB or more.',
    ofEngine((s) => s.arena.hugeBytes),
  ),
  row(
    'gauge',
    'arena_kept',
    '1 when the mount holder keeps the memory for chunks for the next agent, else 0.',
    ofEngine((s) => (s.arena.unkept === '' ? 1 : 0)),
  ),
  row(
    'gauge',
    'arena_found_bytes',
    'Bytes of intact chunks that the previous agent left in the memory for chunks when this agent started.',
    ofEngine((s) => s.arena.foundBytes),
  ),
  row(
    'gauge',
    'arena_file_bytes',
    'Bytes of stored files kept in memory. The engine drops whole files when it needs memory.',
    ofEngine((s) => s.arena.keptBytes),
  ),
  row(
    'counter',
    'arena_evicted_files_total',
    'Files dropped from memory to make room. They stay in the cache.',
    ofEngine((s) => s.arena.evictedFiles),
  ),
  row(
    'counter',
    'arena_moved_bytes_total',
    'Memory moved from one thread of the engine to another that needed it more.',
    ofEngine((s) => s.arena.movedBytes),
  ),
  row(
    'counter',
    'arena_loaded_bytes_total',
    'Bytes loaded from the cache into memory, ahead of readers through mounts and for other agents.',
    ofEngine((s) => s.arena.loadedBytes),
  ),
  row(
    'gauge',
    'arena_quarantined_bytes',
    'Memory for chunks that stays unused, because input or output of an earlier agent may still be in progress there.',
    ofEngine((s) => s.arena.quarantinedBytes),
  ),
];
