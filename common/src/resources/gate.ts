import { z } from 'zod';
import { duration } from './fields.ts';

/** Modes of a pod that uses a Dataset, before the bytes are on a node. */
export const gateModes = ['Off', 'Prefer', 'Wait'] as const;
export type GateMode = (typeof gateModes)[number];

/** Where bytes are to be to count as there: checked in memory, where readers find them too, or stored on disk behind that. */
export const readyWhens = ['Stored', 'Memory'] as const;
export type ReadyWhen = (typeof readyWhens)[number];

export const gate = z.object({
  mode: z
    .enum(gateModes)
    .default('Wait')
    .describe(
      'Wait: pods are held back until the bytes are on the nodes chosen for them. Prefer: pods are steered to where ' +
        'the bytes are and begin at once. Off: nothing is done.',
    ),
  minPercent: z
    .int()
    .min(1)
    .max(100)
    .default(100)
    .describe('With Wait: part of the bytes that must be on the nodes before the pods are released.'),
  timeout: duration('1s', '24h')
    .default('10m')
    .describe('With Wait: after this time the pods are released all the same, and run cold.'),
  affinity: z
    .enum(['Preferred', 'Required'])
    .default('Preferred')
    .describe(
      'How a released pod is bound to the nodes that hold the bytes. Required lets it run nowhere else, also when ' +
        'these nodes are full.',
    ),
  readyWhen: z
    .enum(readyWhens)
    .default('Stored')
    .describe(
      'With Wait: Stored releases the pods when the bytes are stored on the nodes; Memory as soon as they are checked in ' +
        'memory there. Pods read through FUSE then until they are stored.',
    ),
});

/** As the API server gives it: defaults are filled in. */
export type Gate = z.output<typeof gate>;
