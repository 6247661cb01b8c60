import { Metadata, type StatusObject, status } from '@grpc/grpc-js';
import { errorTable, HearthError } from '@hearth/common';

/** Trailing metadata with the name from the error table: gRPC has fewer codes than the table. */
export const codeKey = 'hearth-code';

/** Anything thrown as the status that ends a call. The message is the error's sentence; causes stay in the log. */
export function statusOf(
  thrown: unknown,
): Partial<StatusObject> & { code: number; details: string; metadata: Metadata } {
  const error = HearthError.from(thrown);
  const metadata = new Metadata();
  metadata.set(codeKey, error.code);
  return { code: status[errorTable[error.code].grpc], details: error.message, metadata };
}
