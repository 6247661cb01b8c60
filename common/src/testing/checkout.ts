import { join } from 'node:path';

/** The checkout that the tests run in. */
export const root = join(import.meta.dirname, '../../..');
