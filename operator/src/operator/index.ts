/** The operator: reflectors, leader election, controllers, health and metrics. */
export { type RunningOperator, runOperator } from './run_operator.ts';
