import { z } from 'zod';
import { checkName } from '../datasets/index.ts';

/** `pins/<node>/<dataset>/<owner>`: files that an agent never evicts. */
export const pinSchema = z.object({
  node: z.string(),
  dataset: z.string(),
  manifest: z.string(),
  paths: z.array(z.string()),
  owner: z.string(),
});
export type PinRecord = z.output<typeof pinSchema>;

export function pinId(pin: Pick<PinRecord, 'node' | 'dataset' | 'owner'>): string {
  return `${pin.node}/${pin.dataset}/${pin.owner}`;
}

/** Owners are names, or several names separated by '/', so that an owner of many pins can release them by prefix. */
export function checkOwner(owner: string): void {
  for (const part of owner.replace(/^job:/, '').split('/')) checkName('pin owner', part);
}
