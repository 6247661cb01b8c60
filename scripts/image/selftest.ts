// Writes the files of the self-test into a folder. Usage: node scripts/image/selftest.ts FOLDER
import { makeSelfTest } from '../../node-agent/src/selftest/make.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error('usage: node scripts/image/selftest.ts FOLDER');
  process.exit(2);
}
await makeSelfTest(folder);
