/** What each agent reports of itself, and where bytes are. */
export { StatisticsPublisher } from './publisher.ts';
export { type NodeStatistics, statisticsSchema } from './record.ts';
