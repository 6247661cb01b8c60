// kubectl hearth as files that need nothing beside them: node scripts/kubectl/main.ts [FOLDER]
//   kubectl-hearth             a script for Node 24, on any platform
//   kubectl-hearth-linux-x64   with Node inside; and linux-arm64, win-x64
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { bundleKubectl } from './bundle.ts';
import { makeExecutable, platforms } from './executable.ts';

const folder = process.argv[2] ?? 'build/kubectl-hearth';
mkdirSync(folder, { recursive: true });
const script = join(folder, 'kubectl-hearth');
// In a checkout the script would be taken for a module.
writeFileSync(join(folder, 'package.json'), '{"type":"commonjs"}\n');
await bundleKubectl(script);
chmodSync(script, 0o755);
const made = [script];
for (const platform of platforms) made.push(await makeExecutable(script, platform, folder));
const sums = made.map(
  (file) => `${createHash('sha256').update(readFileSync(file)).digest('hex')}  ${basename(file)}\n`,
);
writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''));
for (const file of made) console.log(`${file}: ${(statSync(file).size / 2 ** 20).toFixed(1)} MiB`);
