import { z } from 'zod';
import { formatSize, parseSize } from './quantity.ts';
import { optionalSetting } from './setting.ts';

const rate = (description: string) =>
  optionalSetting({ description, allowed: 'a size of at least 1B, for example 500MiB', form: 'text' }, (value) => {
    const bytes = parseSize(value);
    return bytes !== undefined && bytes > 0n ? bytes : undefined;
  });

/** `what`: the end of a sentence about bytes a second. */
const bandwidth = (what: string) =>
  z
    .strictObject({
      total: rate(`Maximum bytes a second ${what}; bytes that readers wait for go first. Absent: no limit.`),
      warm: rate(`Maximum bytes a second ${what} while no reader waits for them. Absent: the rest of total.`),
    })
    .refine(({ total, warm }) => total === undefined || warm === undefined || warm <= total, {
      path: ['warm'],
      message: 'must not be more than total',
    })
    .prefault({});

/** Limits on resources that this machine shares with other workloads. */
export const limitsSection = z
  .strictObject({
    origin: bandwidth('from origins'),
    peers: bandwidth('received from other agents, and separately sent to them'),
    disk: bandwidth('written to and read from the cache directories'),
  })
  .prefault({});

export type Limits = z.output<typeof limitsSection>;

/** Limits in the form of the configuration file. */
export function describeLimits(limits: Limits) {
  const shown = ({ total, warm }: Limits['origin']) => ({
    ...(total === undefined ? {} : { total: formatSize(total) }),
    ...(warm === undefined ? {} : { warm: formatSize(warm) }),
  });
  return { origin: shown(limits.origin), peers: shown(limits.peers), disk: shown(limits.disk) };
}

/** Limits in the engine's form, where 0 means no limit. */
export function engineLimits(limits: Limits) {
  const rates = ({ total, warm }: Limits['origin']) => ({ total: total ?? 0n, warm: warm ?? 0n });
  return { origin: rates(limits.origin), peers: rates(limits.peers), disk: rates(limits.disk) };
}
