import type { ServiceError } from '@grpc/grpc-js';
import { type ErrorCode, HearthError, isErrorCode } from '@hearth/common';

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

/** The agent's own error when it sent one, else what happened to the call. */
export function callError(thrown: unknown, node: string, signal: AbortSignal): HearthError {
  if (thrown instanceof HearthError) return thrown;
  if (signal.aborted)
    return new HearthError('Cancelled', `a call to the agent on ${node} was given up`, { cause: thrown });
  if (!isServiceError(thrown)) return HearthError.from(thrown);
  const sent = thrown.metadata?.get('hearth-code')[0]?.toString() ?? '';
  if (isErrorCode(sent)) return new HearthError(sent, thrown.details, { cause: thrown });
  const code = codeByStatus[thrown.code] ?? 'Internal';
  return new HearthError(code, explain(code, thrown.details, node), { cause: thrown });
}

/** Whether another agent may answer what this one did not. */
export function isWorthAnotherAgent(error: HearthError): boolean {
  return error.code === 'Unavailable' || error.code === 'DeadlineExceeded' || error.code === 'TryElsewhere';
}

function explain(code: ErrorCode, details: string, node: string): string {
  switch (code) {
    case 'DeadlineExceeded':
      return `the agent on ${node} did not answer in time; look at the log of its pod`;
    case 'Unavailable':
      return `the agent on ${node} cannot be reached (${details})`;
    case 'Unsupported':
      return `the agent on ${node} does not know this call (${details}); it may be older than the operator: update its image`;
    default:
      return `the agent on ${node} answered: ${details}`;
  }
}

function isServiceError(thrown: unknown): thrown is ServiceError {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'number' && 'details' in thrown;
}
