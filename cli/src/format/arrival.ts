import type { WarmJob, WarmJobNode } from '@hearth/common/generated/hearth/v1/control.ts';
import { formatBytes, formatSpan } from './quantity.ts';

/** Progress of bytes into memory and then to disk, of a job or of one node. */
export type Arrival = Pick<
  WarmJob & WarmJobNode,
  'bytesTotal' | 'bytesReady' | 'bytesInMemory' | 'inMemoryAt' | 'storedAt' | 'secondsToMemory' | 'secondsToStored'
>;

/** `after 3.2 s`; empty: not yet, or unknown. */
export function timeInMemory({ inMemoryAt, secondsToMemory }: Arrival): string {
  return inMemoryAt === '' ? '' : `after ${formatSpan(secondsToMemory)}`;
}

export function timeStored({ storedAt, secondsToStored }: Arrival): string {
  return storedAt === '' ? '' : `after ${formatSpan(secondsToStored)}`;
}

/**
 * `4.0 GiB in memory, 2.0 GiB missing`, then `in memory after 3.2 s, 1.0 GiB not stored yet`, then `in memory after 3.2
 * s, stored after 7.9 s`. Empty when the agent does not report arrival. Pure.
 */
export function arrivalText(arrival: Arrival): string {
  const { bytesTotal, bytesReady, bytesInMemory, inMemoryAt, storedAt } = arrival;
  if (inMemoryAt === '') {
    if (bytesInMemory <= bytesReady) return '';
    return `${formatBytes(bytesInMemory)} in memory, ${formatBytes(bytesTotal - bytesInMemory)} missing`;
  }
  const memory = `in memory ${timeInMemory(arrival)}`;
  if (storedAt !== '') return `${memory}, stored ${timeStored(arrival)}`;
  return bytesTotal > bytesReady ? `${memory}, ${formatBytes(bytesTotal - bytesReady)} not stored yet` : memory;
}
