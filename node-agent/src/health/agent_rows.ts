import { type MetricRow, one, row } from './metric_row.ts';

/** Members, datasets and warm jobs, known to the agent rather than the engine. */
export const agentRows: readonly MetricRow[] = [
  row('gauge', 'members', 'Live agents, including this one.', ({ agent }) => one(agent.context.members.names().size)),
  row('gauge', 'members_ready', 'Ready agents.', ({ agent }) => one(agent.context.members.ready().length)),
  row(
    'gauge',
    'datasets',
    'Datasets by state.',
    ({ agent }) =>
      ['Ready', 'Failed'].map((state) => [
        [state],
        agent.datasets.mirror.values().filter((dataset) => dataset.state === state).length,
      ]),
    ['state'],
  ),
  row(
    'gauge',
    'dataset_resident_bytes',
    'Bytes of a dataset in the cache of this agent.',
    ({ agent }) =>
      Object.entries(agent.statistics.current?.residency ?? {}).map(([name, { residentBytes }]) => [
        [name],
        Number(residentBytes),
      ]),
    ['dataset'],
  ),
  row(
    'gauge',
    'credentials_missing',
    'Datasets whose credentials this agent has not received since its start.',
    ({ agent }) => one(agent.datasets.mirror.values().filter(({ name }) => agent.credentials.awaits(name)).length),
  ),
  row(
    'counter',
    'store_requests_total',
    'Requests of this agent to the store.',
    ({ agent }) => [...agent.context.store.traffic].map(([call, { requests }]) => [[call], requests]),
    ['call'],
  ),
  row(
    'counter',
    'store_request_bytes_total',
    'Bytes of keys, values and leases in requests of this agent to the store.',
    ({ agent }) => [...agent.context.store.traffic].map(([call, { bytes }]) => [[call], bytes]),
    ['call'],
  ),
  row('gauge', 'warm_jobs_running', 'Warm jobs that run on this agent.', ({ agent }) => one(agent.runningParts)),
  row('gauge', 'warm_coordinator', '1 while this agent coordinates warm jobs.', ({ agent }) =>
    one(agent.coordinator.leading),
  ),
];
