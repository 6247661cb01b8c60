import { errorTable, isErrorCode } from '@hearth/common';
import { z } from 'zod';

/** A count of bytes: bigint in memory, decimal text in the store, as JSON numbers end at 2^53. */
export const unsigned = z.codec(z.string().regex(/^\d{1,20}$/), z.bigint(), {
  decode: (text) => BigInt(text),
  encode: (value) => value.toString(),
});

/** A code of the error table; one that this version does not know, written by a newer agent, is `Internal`. */
export const errorCodeSchema = z.codec(z.string(), z.enum(Object.keys(errorTable) as [keyof typeof errorTable]), {
  decode: (text) => (isErrorCode(text) ? text : 'Internal'),
  encode: (code) => code,
});
