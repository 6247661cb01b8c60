import { z } from 'zod';
import { count, keyedBy, timestamp } from './fields.ts';

/** Metadata of every Kubernetes object in JSON form (times are strings). */
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
  type: z.string().min(1).max(63).describe('The aspect that the condition describes, such as Ready.'),
  status: z.enum(['True', 'False', 'Unknown']).describe('True when the condition holds.'),
  observedGeneration: count().optional().describe('metadata.generation of the observed spec.'),
  lastTransitionTime: timestamp().describe('Time of the last change of status.'),
  reason: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$/)
    .describe('Reason for the status, one word in CamelCase for programs.'),
  message: z.string().max(4096).describe('Explanation for people: the state, its cause and the next step.'),
});

export type Condition = z.output<typeof conditionSchema>;

export const conditionsSchema = () =>
  z
    .array(conditionSchema)
    .max(16)
    .meta({
      ...keyedBy('type'),
      description: 'Latest observations of the object. Ready summarizes the other conditions.',
    });

export const observedGeneration = () => count().describe('metadata.generation of the spec that this status describes.');
