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
    'Requests to origins that were repeated.',
    ofEngine((s) => s.originRetries),
  ),
  row(
    'counter',
    'origin_hedged_requests_total',
    'Requests to origins that asked again, on another connection, for what a straggler was asked for.',
    ofEngine((s) => s.originHedgedRequests),
  ),
  row(
    'counter',
    'origin_hedged_bytes_total',
    'Bytes received by these requests, which hearth_origin_bytes_total contains.',
    ofEngine((s) => s.originHedgedBytes),
  ),
  row(
    'counter',
    'origin_hedges_won_total',
    'Those of these requests that brought their bytes before the stragglers did.',
    ofEngine((s) => s.originHedgesWon),
  ),
  row(
    'gauge',
    'origin_parallelism',
    'Requests that a host of origins may be asked at a time, as found by measuring; fewer when it throttles.',
    ({ statistics }) => statistics.originHosts.map(({ host, parallelism }) => [[host], parallelism]),
    ['host'],
  ),
];
