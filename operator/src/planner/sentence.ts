/** Parts of sentences for people. */

const maxListed = 3;

/** `1 node`, `3 nodes`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** The first few, and how many more there are. */
export function listed(parts: readonly string[], separator = ', '): string {
  const shown = parts.slice(0, maxListed);
  const more = parts.length - shown.length;
  return more > 0 ? `${shown.join(separator)} and ${more} more` : shown.join(separator);
}
