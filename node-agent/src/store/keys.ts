/** Bytes of keys, and the ranges of bytes that prefixes are. */

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function encodeText(text: string): Buffer {
  return Buffer.from(text, 'utf8');
}

/** Undefined for bytes that are not UTF-8. */
export function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * The first key after all keys that begin with `prefix`: the prefix without trailing 0xff bytes and with its last byte
 * incremented. Undefined when the range has no end (an empty prefix, or 0xff bytes only).
 */
export function prefixEnd(prefix: Uint8Array): Buffer | undefined {
  const last = prefix.findLastIndex((byte) => byte !== 0xff);
  if (last < 0) return undefined;
  const end = Buffer.from(prefix.subarray(0, last + 1));
  end[last] = (end[last] ?? 0) + 1;
  return end;
}
