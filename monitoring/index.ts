/** Alerts with their runbooks and tests, and dashboards, of the metrics that agents and the operator publish. */
export { alertGroups } from './alerts.ts';
export { alertsDocument } from './alerts_document.ts';
export { dashboards } from './dashboards.ts';
export { ruleGroups, ruleTests } from './prometheus_rule.ts';
