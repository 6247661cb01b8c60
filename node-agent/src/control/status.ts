import { Metadata, type StatusObject, status } from '@grpc/grpc-js';
import { errorCodeKey, errorTable, HearthError } from '@hearth/common';

/** Anything thrown as the status that ends a call. The message is the error's sentence; causes stay in the log. */
export function statusOf(
  thrown: unknown,
): Partial<StatusObject> & { code: number; details: string; metadata: Metadata } {
  const error = HearthError.from(thrown);
  const metadata = new Metadata();
  metadata.set(errorCodeKey, error.code);
  return { code: status[errorTable[error.code].grpc], details: error.message, metadata };
}
