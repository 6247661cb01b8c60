export { type UsageRecord, usageSchema, usesAt } from './record.ts';
export { Usage } from './usage.ts';
