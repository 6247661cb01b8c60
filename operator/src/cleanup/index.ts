/** What is done before the operator is uninstalled. */
export { type CleanupOptions, cleanup } from './cleanup.ts';
