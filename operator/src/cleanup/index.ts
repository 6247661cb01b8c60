/** The cleanup before the chart is uninstalled. */
export { cleanup } from './cleanup.ts';
