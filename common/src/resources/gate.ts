import { z } from 'zod';
import { duration } from './fields.ts';

/** Gate modes of a pod whose Dataset is not on a node yet. */
export const gateModes = ['Off', 'Prefer', 'Wait'] as const;
export type GateMode = (typeof gateModes)[number];

/** Stage at which bytes count as ready: in memory, verified, or also stored on disk. */
export const readyWhens = ['Stored', 'Memory'] as const;
export type ReadyWhen = (typeof readyWhens)[number];

export const gate = z.object({
  mode: z
    .enum(gateModes)
    .default('Wait')
    .describe(
      'Wait: the operator holds pods back until the bytes are on the nodes that it chose for them. Prefer: pods start at ' +
        'once, preferably on nodes that hold the bytes. Off: no gate.',
    ),
  minPercent: z
    .int()
    .min(1)
    .max(100)
    .default(100)
    .describe('With Wait: the part of the bytes that must be on the nodes before the operator releases the pods.'),
  timeout: duration('1s', '24h')
    .default('10m')
    .describe(
      'With Wait: after this time the operator releases the pods although bytes are missing, and they run cold.',
    ),
  affinity: z
    .enum(['Preferred', 'Required'])
    .default('Preferred')
    .describe(
      'Node affinity of a released pod to the nodes that hold the bytes. Required lets the pod run nowhere else, even ' +
        'when these nodes are full.',
    ),
  readyWhen: z
    .enum(readyWhens)
    .default('Stored')
    .describe(
      'With Wait: Stored releases the pods when the bytes are stored on the nodes. Memory releases them as soon as the ' +
        'bytes are checked in memory there; the pods read through FUSE until the bytes are stored.',
    ),
});

/** A gate as the API server returns it, with defaults. */
export type Gate = z.output<typeof gate>;
