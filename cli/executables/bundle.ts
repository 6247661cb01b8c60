import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '../..');

/** Writes `kubectl hearth` as one script for Node 24, which needs no other file. `file` is made executable by the caller. */
export async function bundleKubectl(file: string): Promise<void> {
  const { version } = JSON.parse(readFileSync(join(root, 'cli/package.json'), 'utf8')) as { version: string };
  await build({
    absWorkingDir: root,
    entryPoints: ['cli/src/kubectl/main.ts'],
    outfile: file,
    bundle: true,
    minify: true,
    platform: 'node',
    target: 'node24',
    // Single executables run nothing else.
    format: 'cjs',
    supported: { 'dynamic-import': false },
    banner: { js: '#!/usr/bin/env node' },
    define: { HEARTH_VERSION: JSON.stringify(version) },
    // Files beside a module are of the checkout; HEARTH_VERSION takes their place.
    logOverride: { 'empty-import-meta': 'silent' },
    logLevel: 'warning',
  });
}
