import type { ServiceError } from '@grpc/grpc-js';
import { HearthError, isErrorCode } from './error.ts';
import type { ErrorCode } from './generated/error-codes.ts';

/** Metadata of an answer that failed: the code of our own table. */
export const errorCodeKey = 'hearth-code';

/** gRPC status by number (grpc.github.io/grpc/core/md_doc_statuscodes.html), for failures that carry no code of ours. */
const codeByStatus: Record<number, ErrorCode> = {
  // Cancelled by the other side, since our own end is known by the signal: an agent that shuts down.
  1: 'Unavailable',
  3: 'InvalidArgument',
  4: 'DeadlineExceeded',
  5: 'NotFound',
  6: 'AlreadyExists',
  7: 'PermissionDenied',
  8: 'OutOfSpace',
  9: 'InUse',
  10: 'TryElsewhere',
  12: 'Unsupported',
  14: 'Unavailable',
  15: 'Corrupt',
  16: 'Unauthenticated',
};

/**
 * Why a call of an agent's control API failed: the agent's own error when it sent one, else what happened to the call,
 * in the words of `explain`, which is given gRPC's details.
 */
export function fromCallError(thrown: unknown, explain: (code: ErrorCode, details: string) => string): HearthError {
  if (!isServiceError(thrown)) return HearthError.from(thrown);
  const sent = thrown.metadata?.get(errorCodeKey)[0]?.toString() ?? '';
  if (isErrorCode(sent)) return new HearthError(sent, thrown.details, { cause: thrown });
  const code = codeByStatus[thrown.code] ?? 'Internal';
  return new HearthError(code, explain(code, thrown.details), { cause: thrown });
}

/** True when an error of `fromCallError` means that the agent has no such call, because it is of another release. */
export function isUnknownCall({ cause }: HearthError): boolean {
  return isServiceError(cause) && cause.code === 12 && (cause.metadata?.get(errorCodeKey).length ?? 0) === 0;
}

function isServiceError(thrown: unknown): thrown is ServiceError {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'number' && 'details' in thrown;
}
