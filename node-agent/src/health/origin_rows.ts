import { type MetricRow, ofEngine, row } from './metric_row.ts';

/** Metrics of requests to origins, in total and by host. */
export const originRows: readonly MetricRow[] = [
  row(
    'counter',
    'origin_bytes_total',
    'Bytes received from origins.',
    ofEngine((s) => s.originBytes),
  ),
  row(
    'counter',
    'origin_requests_total',
    'Requests to origins.',
    ofEngine((s) => s.originRequests),
  ),
  row(
    'counter',
    'origin_retries_total',
    'Requests to origins that were retried.',
    ofEngine((s) => s.originRetries),
  ),
  row(
    'counter',
    'origin_hedged_requests_total',
    'Hedged requests to origins: repeats of a slow request on another connection.',
    ofEngine((s) => s.originHedgedRequests),
  ),
  row(
    'counter',
    'origin_hedged_bytes_total',
    'Bytes received by hedged requests, included in hearth_origin_bytes_total.',
    ofEngine((s) => s.originHedgedBytes),
  ),
  row(
    'counter',
    'origin_hedges_won_total',
    'Hedged requests that finished before the slow request.',
    ofEngine((s) => s.originHedgesWon),
  ),
  row(
    'gauge',
    'origin_parallelism',
    'Limit of concurrent requests to a host of origins, adapted by measurement and reduced when the host throttles.',
    ({ statistics }) => statistics.originHosts.map(({ host, parallelism }) => [[host], parallelism]),
    ['host'],
  ),
];
