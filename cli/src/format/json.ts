/**
 * JSON of what agents answer: 64-bit integers as integers (exact; readers must not take them for doubles
 * beyond 2^53), `undefined` left out.
 */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? rawJson(item.toString()) : item));
}

// In V8 since Node 21 (proposal-json-parse-with-source); TypeScript's libraries do not declare it yet.
const rawJson = (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON;
