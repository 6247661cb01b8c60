/** Writes docs/metrics.md; a test fails when the committed file differs. */
import { writeFile } from 'node:fs/promises';
import { metricsDocument } from './metrics.ts';

await writeFile(new URL('../../../docs/metrics.md', import.meta.url), metricsDocument());
