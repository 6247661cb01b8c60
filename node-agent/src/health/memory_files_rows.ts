import { type MetricRow, ofEngine, row } from './metric_row.ts';

/** Metrics of whole files in memory. */
export const memoryFilesRows: readonly MetricRow[] = [
  row(
    'gauge',
    'memory_files_budget_bytes',
    'Memory that whole files may take.',
    ofEngine((s) => s.memoryFiles.budgetBytes),
  ),
  row(
    'gauge',
    'memory_files_used_bytes',
    'Memory of files that are whole in memory or being copied there.',
    ofEngine((s) => s.memoryFiles.usedBytes),
  ),
  row(
    'gauge',
    'memory_files_huge_bytes',
    'Memory of files in pages of 2 MiB or more.',
    ofEngine((s) => s.memoryFiles.hugeBytes),
  ),
  row(
    'gauge',
    'memory_files',
    'Files that are whole in memory.',
    ofEngine((s) => s.memoryFiles.files),
  ),
  row(
    'counter',
    'memory_files_evicted_total',
    'Files that left memory for others.',
    ofEngine((s) => s.memoryFiles.evictedFiles),
  ),
  row(
    'counter',
    'memory_files_evicted_bytes_total',
    'Bytes of the files that left memory for others.',
    ofEngine((s) => s.memoryFiles.evictedBytes),
  ),
  row(
    'counter',
    'memory_files_held_total',
    'Times that a file stayed in memory because a program had it open or mapped.',
    ofEngine((s) => s.memoryFiles.heldFiles),
  ),
  row(
    'counter',
    'memory_files_refused_total',
    'Files that were not brought to memory for want of room.',
    ofEngine((s) => s.memoryFiles.refusedFiles),
  ),
];
