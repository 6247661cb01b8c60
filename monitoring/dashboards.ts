import { Dashboard } from './dashboard.ts';

const chosen = 'storage_cluster=~"$storage_cluster"';
const onNode = `${chosen},node=~"$node"`;
const rate = (metric: string, labels: string) => `sum by (${labels}) (rate(${metric}{${onNode}}[$__rate_interval]))`;
/** Events in the time of each bar. */
const count = (series: string, labels: string) => `sum by (${labels}) (increase(${series}[$__interval]))`;

/** Answers how the caches of a cluster do. */
const overview = new Dashboard({
  uid: 'hearth-overview',
  title: 'Hearth / Overview',
  variables: [
    { name: 'storage_cluster', query: 'label_values(hearth_members, storage_cluster)' },
    { name: 'node', query: 'label_values(hearth_uptime_seconds, node)' },
  ],
  rows: [
    {
      title: 'Pods that wait for their bytes',
      panels: [
        {
          title: 'Pods held back now',
          description: 'Pods whose gate is closed. `kubectl hearth explain` says what each waits for.',
          draw: 'lines',
          unit: 'short',
          width: 6,
          queries: [{ expression: 'sum(hearth_gate_waiting_pods)', legend: 'waiting' }],
        },
        {
          title: 'Gates opened, by reason',
          description: 'Warm is the good one; TimedOut, NoRoom and NoAgent are pods that started cold.',
          draw: 'bars',
          unit: 'short',
          width: 6,
          queries: [{ expression: count('hearth_gate_released_total', 'reason'), legend: '{{reason}}' }],
        },
        {
          title: 'Time until a gate opened',
          description:
            'From the creation of a pod until its bytes were there, of the pods of the last 15 minutes: median and 95th percentile.',
          draw: 'lines',
          unit: 's',
          width: 6,
          queries: [0.5, 0.95].map((part) => ({
            expression: `histogram_quantile(${part}, sum by (le) (rate(hearth_gate_wait_seconds_bucket[15m])))`,
            legend: `p${part * 100}`,
          })),
        },
        {
          title: 'CachePreloads, by phase',
          description: 'Failed ones need a person; `kubectl get cachepreloads -A -o wide` shows why.',
          draw: 'lines',
          unit: 'short',
          width: 6,
          queries: [{ expression: 'sum by (phase) (hearth_preload_objects)', legend: '{{phase}}' }],
        },
      ],
    },
    {
      title: 'Where bytes come from',
      panels: [
        {
          title: 'From origins',
          description:
            'Bytes a second that each node receives from origins. All nodes together should read each file once.',
          draw: 'lines',
          unit: 'Bps',
          width: 8,
          queries: [{ expression: rate('hearth_origin_bytes_total', 'node'), legend: '{{node}}' }],
        },
        {
          title: 'From other nodes',
          description: 'Bytes a second that each node receives from other agents, and of these by RDMA.',
          draw: 'lines',
          unit: 'Bps',
          width: 8,
          queries: [
            { expression: rate('hearth_peer_received_bytes_total', 'node'), legend: '{{node}}' },
            { expression: rate('hearth_rdma_received_bytes_total', 'node'), legend: '{{node}} by RDMA' },
          ],
        },
        {
          title: 'Read through the agent',
          description:
            'Bytes a second that applications read through the agent. Reads of complete files do not pass the agent and are not in here.',
          draw: 'lines',
          unit: 'Bps',
          width: 8,
          queries: [{ expression: rate('hearth_demand_bytes_total', 'node'), legend: '{{node}}' }],
        },
      ],
    },
    {
      title: 'Room',
      panels: [
        {
          title: 'Used part of the budget',
          description: 'A full cache evicts whole files that nobody has pinned; that is normal.',
          draw: 'lines',
          unit: 'percentunit',
          width: 6,
          queries: [
            {
              expression: `hearth_cache_used_bytes{${onNode}} / hearth_cache_budget_bytes{${onNode}}`,
              legend: '{{node}} {{directory}}',
            },
          ],
        },
        {
          title: 'Evicted copies',
          description:
            'redundant: other nodes keep the file. last: no node does, so the caches together are too small.',
          draw: 'bars',
          unit: 'short',
          width: 6,
          queries: [{ expression: count(`hearth_evicted_copies_total{${onNode}}`, 'copy'), legend: '{{copy}}' }],
        },
        {
          title: 'Evicted files of volumes',
          description:
            'Files of scratch volumes that went for newer ones. HearthVolumeTooSmall says when they go too early.',
          draw: 'bars',
          unit: 'short',
          width: 6,
          queries: [
            { expression: count(`hearth_volume_evicted_files_total{${onNode}}`, 'volume'), legend: '{{volume}}' },
          ],
        },
        {
          title: 'Free beside the floor',
          description:
            'Bytes that are free on the disk of a cache directory beyond the floor. Below 0 the cache takes nothing more.',
          draw: 'lines',
          unit: 'bytes',
          signed: true,
          width: 6,
          queries: [
            {
              expression: `hearth_cache_file_system_free_bytes{${onNode}} - hearth_cache_free_floor_bytes{${onNode}}`,
              legend: '{{node}} {{directory}}',
            },
          ],
        },
      ],
    },
  ],
});

/** Helps to find the reason on a node. */
const nodes = new Dashboard({
  uid: 'hearth-nodes',
  title: 'Hearth / Nodes',
  variables: overview.variables,
  rows: [
    {
      title: 'Health',
      panels: [
        {
          title: 'Agents that are alive and ready',
          description: 'As the agents see one another.',
          draw: 'lines',
          unit: 'short',
          width: 8,
          queries: [
            { expression: `max(hearth_members{${chosen}})`, legend: 'alive' },
            { expression: `max(hearth_members_ready{${chosen}})`, legend: 'ready' },
          ],
        },
        {
          title: 'Errors of reads',
          description: 'Opens and reads through mounts that were answered with an error, of each node by code.',
          draw: 'bars',
          unit: 'short',
          width: 8,
          queries: [
            {
              expression: `${count(`hearth_mount_errors_total{${onNode}}`, 'node, code')} > 0`,
              legend: '{{node}} {{code}}',
            },
            { expression: `${count(`hearth_mount_errors_total{${onNode}}`, 'node')} == 0`, legend: '{{node}} none' },
          ],
        },
        {
          title: 'Wrong bytes',
          description:
            'Blocks whose checksum was wrong, on arrival or on the disk, and files that were not what their digest says.',
          draw: 'bars',
          unit: 'short',
          width: 8,
          queries: [
            { expression: count(`hearth_corrupt_blocks_total{${onNode}}`, 'node'), legend: '{{node}} blocks' },
            { expression: count(`hearth_scrub_bad_blocks_total{${onNode}}`, 'node'), legend: '{{node}} scrub' },
            { expression: count(`hearth_digest_mismatches_total{${onNode}}`, 'node'), legend: '{{node}} digests' },
          ],
        },
      ],
    },
    {
      title: 'Origins',
      panels: [
        {
          title: 'Requests and repeated ones',
          description:
            'Requests a second to origins. Many repeated ones: the origin throttles, fails or is reached badly.',
          draw: 'lines',
          unit: 'reqps',
          width: 12,
          queries: [
            { expression: rate('hearth_origin_requests_total', 'node'), legend: '{{node}}' },
            { expression: rate('hearth_origin_retries_total', 'node'), legend: '{{node}} repeated' },
          ],
        },
        {
          title: 'Requests at a time, by host',
          description: 'As found by measuring. Low and staying low: the host throttles.',
          draw: 'lines',
          unit: 'short',
          width: 12,
          queries: [{ expression: `hearth_origin_parallelism{${onNode}}`, legend: '{{node}} {{host}}' }],
        },
      ],
    },
    {
      title: 'Memory and limits',
      panels: [
        {
          title: 'Memory for chunks',
          description: 'What the kernel has given of it, and what waits for the disk.',
          draw: 'lines',
          unit: 'bytes',
          width: 8,
          queries: [
            { expression: `hearth_arena_committed_bytes{${onNode}}`, legend: '{{node}}' },
            { expression: `hearth_write_back_bytes{${onNode}}`, legend: '{{node}} waits for the disk' },
          ],
        },
        {
          title: 'Waiting for limits',
          description: 'How many pieces of work waited at a time, on average. demand is readers.',
          draw: 'lines',
          unit: 'short',
          width: 8,
          queries: [
            {
              expression: rate('hearth_limit_waited_seconds_total', 'node, what, class'),
              legend: '{{node}} {{what}} {{class}}',
            },
          ],
        },
        {
          title: 'Longest queue of a shard',
          description: 'Calls that waited for one shard of the engine at a time since its start.',
          draw: 'lines',
          unit: 'short',
          width: 8,
          queries: [{ expression: `hearth_longest_shard_queue{${onNode}}`, legend: '{{node}}' }],
        },
      ],
    },
  ],
});

export const dashboards: readonly Dashboard[] = [overview, nodes];
