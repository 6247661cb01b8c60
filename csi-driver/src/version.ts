import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

/** Of this package, as its package.json says. */
export function driverVersion(): string {
  return JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')).version;
}
