import type { ServiceError } from '@grpc/grpc-js';
import { HearthError, isErrorCode } from './error.ts';
import type { ErrorCode } from './generated/error-codes.ts';

/** Metadata key under which a failed call carries its HearthError code. */
export const errorCodeKey = 'hearth-code';

/**
 * Codes for failures without a HearthError code, by gRPC status number
 * (grpc.github.io/grpc/core/md_doc_statuscodes.html).
 */
const codeByStatus: Record<number, ErrorCode> = {
  // CANCELLED by the server, as when an agent shuts down; a caller detects its own cancellation by its signal.
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
 * Converts the failure of a control API call to a HearthError: the agent's own error if the agent sent one, else the
 * result of `explain`, which receives gRPC's details.
 */
export function fromCallError(thrown: unknown, explain: (code: ErrorCode, details: string) => string): HearthError {
  if (!isServiceError(thrown)) return HearthError.from(thrown);
  const sent = thrown.metadata?.get(errorCodeKey)[0]?.toString() ?? '';
  if (isErrorCode(sent)) return new HearthError(sent, thrown.details, { cause: thrown });
  const code = codeByStatus[thrown.code] ?? 'Internal';
  return new HearthError(code, explain(code, thrown.details), { cause: thrown });
}

/** True when an error of `fromCallError` means that the agent, of another release, does not implement the call. */
export function isUnknownCall({ cause }: HearthError): boolean {
  return isServiceError(cause) && cause.code === 12 && (cause.metadata?.get(errorCodeKey).length ?? 0) === 0;
}

function isServiceError(thrown: unknown): thrown is ServiceError {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'number' && 'details' in thrown;
}
