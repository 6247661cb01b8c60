/** Parts of sentences for people. */

/** `1 node`, `3 nodes`. */
export function counted(count: number | bigint, noun: string): string {
  return `${count} ${noun}${BigInt(count) === 1n ? '' : 's'}`;
}

/**
 * The first few parts and the number of further ones: `a, b, c and 3 more`. `what` names the parts: `and 3 more nodes`.
 */
export function listed(parts: readonly string[], { most = 3, separator = ', ', what = '' } = {}): string {
  const left = parts.length - most;
  const more = left > 0 ? ` and ${left} more${what === '' ? '' : ` ${what}`}` : '';
  return `${parts.slice(0, most).join(separator)}${more}`;
}
