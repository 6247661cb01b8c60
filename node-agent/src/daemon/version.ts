import { readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';

/** Version in this package's package.json. */
export const version: string = JSON.parse(readFileSync(findPackageJSON(import.meta.url) ?? '', 'utf8')).version;
