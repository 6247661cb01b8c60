// Usage: node random_process.ts SEED SECONDS FOLDER MOUNT...
//
// Works on a folder of its own with random operations, each through any of the mounts, and competes with other
// processes for names of the folder `shared`. Ends with 1 and the difference, or prints the names that it won.
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { RandomTree, random } from './random_tree.ts';

const [seed = '', seconds = '', folder = '', ...mounts] = process.argv.slice(2);
const next = random(Number(seed));
const end = Date.now() + Number(seconds) * 1000;
const [mount = ''] = mounts;
mkdirSync(join(mount, 'shared'), { recursive: true });
const tree = new RandomTree(mounts, folder, next);
const won: string[] = [];

/** Creates the name exclusively; one of all processes succeeds. */
function compete(name: string): void {
  const at = mounts[Math.floor(next() * mounts.length)] ?? mount;
  try {
    closeSync(openSync(join(at, 'shared', name), 'wx'));
    won.push(name);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown;
  }
}

try {
  for (let round = 0; Date.now() < end; round++) {
    tree.step();
    if (round % 20 === 0) compete(`name ${round}`);
    if (round % 500 === 0) tree.check();
  }
  tree.check();
} catch (thrown) {
  console.error(`after ${tree.operations} operations of seed ${seed}: ${(thrown as Error).stack}`);
  process.exit(1);
}
console.log(JSON.stringify({ operations: tree.operations, won }));
