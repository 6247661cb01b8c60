import { type ErrorCode, fromCallError, HearthError } from '@hearth/common';

/** The call, for the sentence of an error. */
export interface CallSubject {
  socket: string;
  timeoutMilliseconds: number;
  signal: AbortSignal;
}

/** The agent's own error if the agent sent one, else an error about the connection. */
export function fromServiceError(thrown: unknown, subject: CallSubject): HearthError {
  if (thrown instanceof HearthError) return thrown;
  if (subject.signal.aborted) return new HearthError('Cancelled', 'interrupted', { cause: thrown });
  return fromCallError(thrown, (code, details) => explain(code, details, subject));
}

function explain(code: ErrorCode, details: string, subject: CallSubject): string {
  switch (code) {
    case 'DeadlineExceeded':
      return `the agent did not answer within ${subject.timeoutMilliseconds / 1000} s; see its log, or give it more time with --timeout`;
    case 'Unavailable':
      return `the agent at ${subject.socket} went away (${details}); see its log and try again`;
    case 'Unsupported':
      return `the agent does not know this call (${details}); it may be older than this command: update it`;
    default:
      return details;
  }
}

/** Explains why the agent's socket cannot be opened, with the next step. `reason`: errno from `knock`. */
export function fromSocketError(reason: string, path: string): HearthError {
  switch (reason) {
    case 'ENOENT':
    case 'ECONNREFUSED':
      return new HearthError(
        'Unavailable',
        `no agent listens on ${path}; start one with \`hearth agent\`, or name another socket by --socket or HEARTH_SOCKET`,
      );
    case 'EACCES':
    case 'EPERM':
      return new HearthError(
        'PermissionDenied',
        `this user may not open the agent's socket ${path}; run the command as the agent's user (sudo)`,
      );
    case 'ETIMEDOUT':
      return new HearthError(
        'DeadlineExceeded',
        `the agent at ${path} does not accept connections; look at its process and its log`,
      );
    default:
      return new HearthError('Unavailable', `the agent's socket ${path} cannot be opened (${reason}); check --socket`);
  }
}
