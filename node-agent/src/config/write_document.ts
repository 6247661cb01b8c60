/** Writes docs/configuration.md; a test fails when the committed file differs. */
import { writeFile } from 'node:fs/promises';
import { configurationDocument } from './describe.ts';

await writeFile(new URL('../../../docs/configuration.md', import.meta.url), configurationDocument());
