import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleKubectl } from './bundle.ts';
import { makeExecutable, platforms } from './executable.ts';

/** Writes `kubectl hearth` into a folder, as a script and as an executable of every platform; gives their paths. */
export async function makeKubectlPrograms(folder: string): Promise<string[]> {
  mkdirSync(folder, { recursive: true });
  const script = join(folder, 'kubectl-hearth');
  // In a checkout the script would be taken for a module.
  writeFileSync(join(folder, 'package.json'), '{"type":"commonjs"}\n');
  await bundleKubectl(script);
  chmodSync(script, 0o755);
  const made = [script];
  for (const platform of platforms) made.push(await makeExecutable(script, platform, folder));
  return made;
}
