/** Writes docs/metrics.md; its test fails when the file is not what this program writes. */
import { writeFile } from 'node:fs/promises';
import { metricsDocument } from './metrics.ts';

await writeFile(new URL('../../../docs/metrics.md', import.meta.url), metricsDocument());
