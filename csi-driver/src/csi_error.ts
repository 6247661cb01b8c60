import { status } from '@grpc/grpc-js';
import { type ErrorCode, errorTable, HearthError } from '@hearth/common';

/** gRPC statuses of the CSI specification, and the nearest code of ours. */
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

/** A HearthError with a gRPC status that the CSI specification requires. */
export class CsiError extends HearthError {
  readonly status: CsiStatus;

  constructor(csiStatus: CsiStatus, message: string, options?: ErrorOptions) {
    super(codeOf[csiStatus], message, options);
    this.status = csiStatus;
  }
}

export const invalidArgument = (message: string) => new CsiError('INVALID_ARGUMENT', message);
export const failedPrecondition = (message: string) => new CsiError('FAILED_PRECONDITION', message);

export function statusOf(error: HearthError): number {
  return status[error instanceof CsiError ? error.status : errorTable[error.code].grpc];
}
