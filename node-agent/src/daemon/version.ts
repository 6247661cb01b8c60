import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

/** Of this package, as its package.json says. */
export const version: string = JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')).version;
