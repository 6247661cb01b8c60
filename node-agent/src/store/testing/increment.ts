// A process that adds 1 to a number in the store, COUNT times, by compare and put. Usage: node increment.ts ADDRESS KEY
// COUNT
import { openStore } from '../open_store.ts';

const [, , address = '', key = '', count = '0'] = process.argv;
const store = await openStore(address);
for (let done = 0; done < Number(count); ) {
  const before = await store.get(key);
  const { succeeded } = await store.transact({
    compare: [{ key, modRevision: before?.modRevision ?? 0 }],
    success: [{ kind: 'put', key, value: String(Number(before?.value ?? 0) + 1) }],
  });
  if (succeeded) done++;
}
await store.close();
