import { z } from 'zod';

/** Spelling of a setting in text (environment, flags). */
export type SettingForm = 'text' | 'list' | 'map' | 'switch';

export interface SettingNotes {
  description: string;
  /** Condition on a value, as the end of the sentence "must be ...". */
  allowed: string;
  form: SettingForm;
  /** The default as a person would write it; absent when there is none. */
  default?: string;
  /** Never printed, and never read from flags or the configuration file. */
  secret?: boolean;
}

/** Notes on every leaf of the schema, from which documentation, flags and variables are derived. */
export const settingNotes = z.registry<SettingNotes>();

/**
 * A leaf of the schema: `parse` returns the value, or undefined for invalid text. The error of a refused value names
 * the allowed ones. `fallback` is parsed like any other value; without it the setting may be undefined.
 */
export function setting<T>(
  notes: Omit<SettingNotes, 'default'>,
  parse: (value: unknown) => T | undefined,
  fallback: string,
) {
  const schema = leaf(notes.allowed, parse).prefault(fallbackInput(notes.form, fallback));
  settingNotes.add(schema, fallback === '' ? notes : { ...notes, default: fallback });
  return schema;
}

export function optionalSetting<T>(notes: Omit<SettingNotes, 'default'>, parse: (value: unknown) => T | undefined) {
  const schema = leaf(notes.allowed, parse).optional();
  settingNotes.add(schema, notes);
  return schema;
}

function leaf<T>(allowed: string, parse: (value: unknown) => T | undefined) {
  return z.unknown().transform((value, context): T => {
    const parsed = parse(value);
    if (parsed !== undefined) return parsed;
    context.addIssue({ code: 'custom', message: `must be ${allowed}` });
    return z.NEVER;
  });
}

function fallbackInput(form: SettingForm, fallback: string): unknown {
  return form === 'list' ? splitList(fallback) : fallback;
}

/** `a,b` as a list; the empty text is the empty list. */
export function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** Parses each element; undefined when one of them is invalid. A single text is a list of one. */
export function listOf<T>(parse: (value: unknown) => T | undefined): (value: unknown) => T[] | undefined {
  return (value) => {
    const parts: unknown[] = Array.isArray(value) ? value : [value];
    const parsed = parts.map(parse);
    return parsed.every((one) => one !== undefined) ? parsed : undefined;
  };
}

export function oneOf<const T extends string>(...values: T[]): (value: unknown) => T | undefined {
  return (value) => values.find((one) => one === value);
}

export function parseSwitch(value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value;
  if (value === 'true' || value === '1' || value === 'yes') return true;
  if (value === 'false' || value === '0' || value === 'no') return false;
  return undefined;
}

/** A whole number between inclusive bounds. */
export function countBetween(least: number, most: number): (value: unknown) => number | undefined {
  return (value) => {
    const number = typeof value === 'string' && /^\d{1,9}$/.test(value.trim()) ? Number(value) : value;
    return typeof number === 'number' && Number.isInteger(number) && number >= least && number <= most
      ? number
      : undefined;
  };
}

/** Names of nodes, clusters and owners, which become parts of store keys and file names. */
export function parseName(value: unknown): string | undefined {
  return typeof value === 'string' && /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/.test(value)
    ? value
    : undefined;
}

/** `key=value` pairs as a record, from a YAML mapping or from text separated by commas. */
export function parseLabels(value: unknown): Record<string, string> | undefined {
  const pairs = typeof value === 'string' ? splitList(value).map((pair) => pair.split('=', 2)) : entriesOf(value);
  const labels: Record<string, string> = {};
  for (const [key, text] of pairs ?? [[undefined, undefined]]) {
    if (typeof key !== 'string' || key === '' || typeof text !== 'string') return undefined;
    labels[key] = text;
  }
  return labels;
}

function entriesOf(value: unknown): [string, unknown][] | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined;
}
