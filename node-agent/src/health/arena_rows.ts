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
    'Of the memory for chunks what the kernel has given and charges for.',
    ofEngine((s) => s.arena.committedBytes),
  ),
  row(
    'gauge',
    'arena_huge_bytes',
    'Of the memory for chunks what lies in pages of 2 MiB or more.',
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
    'Of chunks that the agent before had left in the memory for chunks, whole, when this one started.',
    ofEngine((s) => s.arena.foundBytes),
  ),
  row(
    'gauge',
    'arena_file_bytes',
    'Bytes of files that are in memory and wait for no disk; they go, whole files at a time, when memory is needed.',
    ofEngine((s) => s.arena.keptBytes),
  ),
  row(
    'counter',
    'arena_evicted_files_total',
    'Files that went from memory, as memory was needed. They stay in the cache.',
    ofEngine((s) => s.arena.evictedFiles),
  ),
  row(
    'counter',
    'arena_moved_bytes_total',
    'Memory that went from one thread of the engine to another, as files there needed it more.',
    ofEngine((s) => s.arena.movedBytes),
  ),
  row(
    'counter',
    'arena_loaded_bytes_total',
    'Bytes that came from the cache into memory: ahead of readers through mounts, and for other agents.',
    ofEngine((s) => s.arena.loadedBytes),
  ),
  row(
    'gauge',
    'arena_quarantined_bytes',
    'Of the memory for chunks what is not used, as an agent before may still have input or output there.',
    ofEngine((s) => s.arena.quarantinedBytes),
  ),
];
