// Loads every package of this image once, so that Node writes what it has compiled to NODE_COMPILE_CACHE.
import { readFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';

interface Manifest {
  name: string;
  workspaces?: string[];
  exports?: Record<string, string>;
}

const root = new URL('../../', import.meta.url);
const read = (folder: string) => JSON.parse(readFileSync(new URL(`${folder}package.json`, root), 'utf8')) as Manifest;

for (const folder of read('').workspaces ?? []) {
  for (const [name, path] of Object.entries(read(`${folder}/`).exports ?? {})) {
    // Files for tests need programs and packages that are not here.
    if (!name.includes('*') && !name.includes('testing')) await import(new URL(`${folder}/${path}`, root).href);
  }
}
flushCompileCache();
process.exit();
