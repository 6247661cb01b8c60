import { type Alert, growth, growthOfEvents } from './alert.ts';

const grows = (series: string, labels: string) => [{ series: `${series}{${labels}}`, values: '0 0 2x20' }];
const stands = (series: string, labels: string) => [{ series: `${series}{${labels}}`, values: '2x20' }];

/** About bytes that are wrong or cannot be had, and disks that are full. */
export const byteAlerts: readonly Alert[] = [
  {
    name: 'HearthReadsFail',
    severity: 'critical',
    expression: growthOfEvents('hearth_mount_errors_total', '10m', 'node, code', 'hearth_uptime_seconds'),
    holds: '0m',
    summary: 'Applications on {{ $labels.node }} get errors from mounts ({{ $labels.code }}).',
    meaning: 'Opens or reads of files in volumes were answered with an error.',
    action:
      "The agent's log has `a read through a mount failed` with the file, the reason and the next step, once a minute for each file.",
    // The series begins with the first error.
    fires: [
      { series: 'hearth_uptime_seconds{instance="a"}', values: '0+60x60' },
      { series: 'hearth_mount_errors_total{instance="a",node="n1",code="Unavailable"}', values: '_x20 1x20' },
    ],
    stays: stands('hearth_mount_errors_total', 'node="n1",code="Unavailable"'),
  },
  {
    name: 'HearthBytesLost',
    severity: 'critical',
    expression: growth('hearth_scrub_lost_total', '1h', 'node'),
    holds: '0m',
    summary: 'Bytes changed on a disk of {{ $labels.node }} and can be had from nowhere.',
    meaning:
      'The scrub found blocks whose checksum is wrong; no peer and no origin gives them. Their files are not served as a whole.',
    action:
      'Make the origin readable: the files are fetched again within ten minutes, or when they are warmed. Look after the disk (`dmesg`, SMART).',
    fires: grows('hearth_scrub_lost_total', 'node="n1"'),
    stays: stands('hearth_scrub_lost_total', 'node="n1"'),
  },
  {
    name: 'HearthCorruptBlocks',
    severity: 'warning',
    expression: `${growth('hearth_corrupt_blocks_total', '1h', 'node')} or ${growth('hearth_scrub_bad_blocks_total', '1h', 'node')}`,
    holds: '0m',
    summary: 'A disk or the memory of {{ $labels.node }} returns wrong bytes.',
    meaning: 'Checksums were wrong; the blocks were fetched again, and readers got right ones.',
    action:
      'Look after the disk and the memory of that node (`dmesg`, SMART, EDAC); drain it when the count goes on growing.',
    fires: [
      { series: 'hearth_corrupt_blocks_total{node="n1"}', values: '0 0 2x20' },
      { series: 'hearth_scrub_bad_blocks_total{node="n1"}', values: '0x22' },
    ],
    stays: [
      { series: 'hearth_corrupt_blocks_total{node="n1"}', values: '2x20' },
      { series: 'hearth_scrub_bad_blocks_total{node="n1"}', values: '0x20' },
    ],
  },
  {
    name: 'HearthOriginDiffersFromDigest',
    severity: 'warning',
    expression: growth('hearth_digest_mismatches_total', '1h', 'node'),
    holds: '0m',
    summary: 'An origin gave {{ $labels.node }} other bytes than its digest says.',
    meaning:
      'The file was dropped and fetched once more. A file that differs again is refused with `Corrupt` for ten minutes.',
    action:
      "The agent's log names file and origin. Something between the origin and the node changes bytes, or the origin is wrong: compare the digest there.",
    fires: grows('hearth_digest_mismatches_total', 'node="n1"'),
    stays: stands('hearth_digest_mismatches_total', 'node="n1"'),
  },
  {
    name: 'HearthResidencyLogLost',
    severity: 'info',
    expression: 'hearth_residency_log_lost_bytes > 0',
    holds: '0m',
    summary: 'The residency log of {{ $labels.node }} could not be read to its end.',
    meaning: 'A crash tore the end of the log, which is harmless, or the disk returns wrong bytes.',
    action: "The agent's log says which of both. In the second case look after the disk.",
    fires: [{ series: 'hearth_residency_log_lost_bytes{node="n1"}', values: '512x20' }],
    stays: [{ series: 'hearth_residency_log_lost_bytes{node="n1"}', values: '0x20' }],
  },
  {
    name: 'HearthDatasetFailed',
    severity: 'warning',
    expression: 'max by (storage_cluster) (hearth_datasets{state="Failed"}) > 0',
    holds: '15m',
    summary: '{{ $value }} Datasets of StorageCluster {{ $labels.storage_cluster }} cannot be listed.',
    meaning: 'Their origin cannot be read, or is not what the Dataset says. Pods that mount them wait.',
    action:
      '`kubectl get datasets -A` shows the reason; `kubectl describe dataset NAME` has the sentence with the next step.',
    fires: [{ series: 'hearth_datasets{state="Failed",storage_cluster="main",node="n1"}', values: '1x30' }],
    stays: [{ series: 'hearth_datasets{state="Ready",storage_cluster="main",node="n1"}', values: '1x30' }],
  },
  {
    name: 'HearthDiskFull',
    severity: 'warning',
    expression: 'hearth_cache_file_system_free_bytes < hearth_cache_free_floor_bytes',
    holds: '15m',
    summary: 'Another program fills the disk of {{ $labels.directory }} on {{ $labels.node }}.',
    meaning:
      'Less is free than the floor of the cache directory, so the cache takes nothing more and evicts what it may.',
    action:
      'Find what fills the disk (`du -x`), or give the cache a disk of its own. The kubelet evicts pods when its disk is full.',
    fires: [
      { series: 'hearth_cache_file_system_free_bytes{node="n1",directory="/c"}', values: '5x30' },
      { series: 'hearth_cache_free_floor_bytes{node="n1",directory="/c"}', values: '10x30' },
    ],
    stays: [
      { series: 'hearth_cache_file_system_free_bytes{node="n1",directory="/c"}', values: '15x30' },
      { series: 'hearth_cache_free_floor_bytes{node="n1",directory="/c"}', values: '10x30' },
    ],
  },
  {
    name: 'HearthCachesTooSmall',
    severity: 'warning',
    expression: growth('hearth_evicted_copies_total{copy="last"}', '1h', 'storage_cluster'),
    holds: '0m',
    summary: 'Files that are wanted left the last node that had them, of StorageCluster {{ $labels.storage_cluster }}.',
    meaning: 'The caches of all nodes together have no room for what is wanted: such files come from the origin again.',
    action: 'Raise budgets, add nodes, or pin what must stay. docs/sizing.md has the arithmetic.',
    fires: grows('hearth_evicted_copies_total', 'copy="last",storage_cluster="main"'),
    stays: grows('hearth_evicted_copies_total', 'copy="redundant",storage_cluster="main"'),
  },
  {
    name: 'HearthVolumeTooSmall',
    severity: 'warning',
    expression: growth('hearth_volume_evicted_young_files_total', '1h', 'storage_cluster, volume'),
    holds: '15m',
    summary: 'Volume {{ $labels.volume }} evicts files that were written within the hour.',
    meaning:
      'The programs that use the volume write more in an hour than it holds, so they may find little of it again: a KV cache recomputes, a compile cache compiles.',
    action:
      'Raise the size: edit the storage request of the claim, or `hearth volume resize`. `hearth volume show NAME` counts the evicted files.',
    fires: grows('hearth_volume_evicted_young_files_total', 'storage_cluster="main",node="n1",volume="kv"'),
    stays: grows('hearth_volume_evicted_files_total', 'storage_cluster="main",node="n1",volume="kv"'),
  },
  {
    name: 'HearthBytesNotKept',
    severity: 'warning',
    expression: growth('hearth_through_bytes_total', '30m', 'node'),
    holds: '0m',
    summary: 'The cache of {{ $labels.node }} cannot keep what readers need.',
    meaning:
      'Bytes were given to readers and not kept, for want of room or because the disk failed: they come over the network each time.',
    action: "Raise the budget or unpin; the agent's log has the reason (`bytes were given to readers and not cached`).",
    fires: grows('hearth_through_bytes_total', 'node="n1"'),
    stays: stands('hearth_through_bytes_total', 'node="n1"'),
  },
];
