/** Writes docs/configuration.md; its test fails when the file is not what this program writes. */
import { writeFile } from 'node:fs/promises';
import { configurationDocument } from './describe.ts';

await writeFile(new URL('../../../docs/configuration.md', import.meta.url), configurationDocument());
