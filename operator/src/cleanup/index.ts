/** The work before the operator is uninstalled. */
export { cleanup } from './cleanup.ts';
