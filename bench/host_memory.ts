import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const reportedOrder = '/sys/module/page_reporting/parameters/page_reporting_order';
/** More than the order of any block that the kernel has free. */
const never = '11';

/**
 * Does something while the host of this virtual machine keeps the memory that becomes free. Where the kernel reports free pages the
 * host takes them, gives others when they are written, and the first read after that takes a quarter longer than every later one,
 * of a file in a plain tmpfs too. Machines without such a host have nothing to change.
 */
export async function whileHostKeepsMemory<T>(work: () => Promise<T>): Promise<T> {
  if (!existsSync(reportedOrder)) return work();
  const before = readFileSync(reportedOrder, 'utf8');
  writeFileSync(reportedOrder, never);
  try {
    return await work();
  } finally {
    writeFileSync(reportedOrder, before);
  }
}
