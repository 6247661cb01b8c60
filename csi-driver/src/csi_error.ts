import { status } from '@grpc/grpc-js';
import { type ErrorCode, errorTable, HearthError } from '@hearth/common';

/** Statuses that the CSI specification gives a meaning of its own, and the nearest code of our table. */
const codeOf = {
  INVALID_ARGUMENT: 'InvalidArgument',
  NOT_FOUND: 'NotFound',
  ALREADY_EXISTS: 'AlreadyExists',
  FAILED_PRECONDITION: 'InUse',
  ABORTED: 'TryElsewhere',
  OUT_OF_RANGE: 'InvalidArgument',
  UNIMPLEMENTED: 'Unsupported',
  UNAVAILABLE: 'Unavailable',
  DEADLINE_EXCEEDED: 'DeadlineExceeded',
  INTERNAL: 'Internal',
} as const satisfies Record<string, ErrorCode>;

export type CsiStatus = keyof typeof codeOf;

/** A HearthError for which the CSI specification asks for a certain gRPC status. */
export class CsiError extends HearthError {
  readonly status: CsiStatus;

  constructor(csiStatus: CsiStatus, message: string, options?: ErrorOptions) {
    super(codeOf[csiStatus], message, options);
    this.status = csiStatus;
  }
}

export function invalidArgument(message: string): CsiError {
  return new CsiError('INVALID_ARGUMENT', message);
}

/** Number of the gRPC status that an error ends a call with. */
export function statusOf(error: HearthError): number {
  return status[error instanceof CsiError ? error.status : errorTable[error.code].grpc];
}
