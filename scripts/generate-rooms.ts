// Holds the includes of the native code to what its rooms offer and link, and writes docs/reference/native-rooms.md.
// Usage: node scripts/generate-rooms.ts
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf, readRooms, render, sizeOf } from './rooms/native_rooms.ts';

const native = join(import.meta.dirname, '../native');
// Also what is not committed yet; not what is removed.
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: native,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(native, path)));
const { rooms, sources } = readRooms(native, files);
const faults = faultsOf(rooms, sources);
for (const fault of faults) console.error(`${fault}.`);
if (faults.length > 0) {
  console.error('List the header in HEADERS (or TESTING) of its room, link the room, or do without the include.');
  process.exit(1);
}
writeFileSync(join(native, '../docs/reference/native-rooms.md'), render(rooms));
for (const { name } of rooms) {
  const { files: count, lines, testLines } = sizeOf(name, sources);
  console.log(
    `${name.padEnd(10)} ${String(count).padStart(4)} files ${String(lines).padStart(6)} lines, tests ${testLines}`,
  );
}
