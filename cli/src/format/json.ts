/**
 * JSON with 64-bit integers as exact integers (readers must not parse them as doubles beyond 2^53), without undefined
 * fields.
 */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? rawJson(item.toString()) : item));
}

// In V8 since Node 21 (proposal-json-parse-with-source); TypeScript's libraries do not declare it yet.
const rawJson = (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON;
