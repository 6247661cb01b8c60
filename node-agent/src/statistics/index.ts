/** Published state of each agent, including the location of bytes. */
export { StatisticsPublisher } from './publisher.ts';
export { type RailTotals, railsByPort } from './rdma_rails.ts';
export { type NodeStatistics, statisticsSchema } from './record.ts';
