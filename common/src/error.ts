import { type ErrorCode, errorTable } from './generated/error-codes.ts';

export type { ErrorCode };

/** The only error class: a code of proto/errors.yaml and a sentence for people that contains no secrets. */
export class HearthError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'HearthError';
    this.code = code;
  }

  /** The same error with "context: " before the message. */
  within(context: string): HearthError {
    return new HearthError(this.code, `${context}: ${this.message}`, { cause: this });
  }

  /** Exit code of the command line for this error. */
  get exitCode(): number {
    return errorTable[this.code].exit;
  }

  /** Converts anything thrown; foreign errors become `Internal` and keep their message. */
  static from(thrown: unknown): HearthError {
    if (thrown instanceof HearthError) return thrown;
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    return new HearthError('Internal', message, { cause: thrown });
  }
}

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(errorTable, text);
}

/** For `catch()`: swallows errors of this code and rethrows every other error. */
export function ignoring(code: ErrorCode): (thrown: unknown) => undefined {
  return (thrown) => {
    const error = HearthError.from(thrown);
    if (error.code !== code) throw error;
    return undefined;
  };
}
