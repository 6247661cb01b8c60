/** Figures of each agent, including the location of bytes. */
export {
  type AskNode,
  ClusterStatistics,
  type GatheredStatistics,
  type Wanted,
} from './cluster_statistics.ts';
export { EarlierReleases } from './earlier_releases.ts';
export { OwnStatistics } from './own_statistics.ts';
export { type RailTotals, railsByPort } from './rdma_rails.ts';
export type { NodeStatistics, NodeVolume } from './record.ts';
export type { ReportHistory } from './report_history.ts';
