import { z } from 'zod';
import { count, keyedBy, timestamp } from './fields.ts';

/** Metadata of every object of Kubernetes, as JSON carries it (times are text). */
export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export const conditionSchema = z.object({
  type: z.string().min(1).max(63).describe('What the condition is about, such as Ready.'),
  status: z.enum(['True', 'False', 'Unknown']).describe('Whether it holds.'),
  observedGeneration: count().optional().describe('metadata.generation of the spec that this was found for.'),
  lastTransitionTime: timestamp().describe('When status changed last.'),
  reason: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$/)
    .describe('One word for programs, in CamelCase.'),
  message: z.string().max(4096).describe('A sentence for people: what is so, and what to do about it.'),
});

export type Condition = z.output<typeof conditionSchema>;

export const conditionsSchema = () =>
  z
    .array(conditionSchema)
    .max(16)
    .meta({ ...keyedBy('type'), description: 'What holds of the object now. Ready sums the others up.' });

export const observedGeneration = () =>
  count().describe('metadata.generation of the spec that this status was written for.');
