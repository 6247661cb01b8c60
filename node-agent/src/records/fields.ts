import { errorTable, isErrorCode } from '@hearth/common';
import { z } from 'zod';

/** A number of bytes: bigint in memory, decimal text in the store, because JSON numbers are exact only up to 2^53. */
export const unsigned = z.codec(z.string().regex(/^\d{1,20}$/), z.bigint(), {
  decode: (text) => BigInt(text),
  encode: (value) => value.toString(),
});

/** A code of the error table; an unknown code of a newer agent becomes `Internal`. */
export const errorCodeSchema = z.codec(z.string(), z.enum(Object.keys(errorTable) as [keyof typeof errorTable]), {
  decode: (text) => (isErrorCode(text) ? text : 'Internal'),
  encode: (code) => code,
});
