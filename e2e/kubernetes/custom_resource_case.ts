/** Specs of custom resources, and what the API server says of them. */

export interface Case {
  what: string;
  spec: Record<string, unknown>;
  /** Absent: it is taken. */
  refused?: { field: string; message: RegExp };
}

export const accepted = (what: string, spec: Record<string, unknown>): Case => ({ what, spec });
export const refused = (what: string, field: string, message: RegExp, spec: Record<string, unknown>): Case => ({
  what,
  spec,
  refused: { field, message },
});

export const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
