import { type ErrorCode, errorTable } from './generated/error-codes.ts';

export type { ErrorCode };

/** The one error class: a code of the error table and a sentence for people, without secrets. */
export class HearthError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'HearthError';
    this.code = code;
  }

  /** The same error with "context: " before its message. */
  within(context: string): HearthError {
    return new HearthError(this.code, `${context}: ${this.message}`, { cause: this });
  }

  /** Exit code of the command line for this error. */
  get exitCode(): number {
    return errorTable[this.code].exit;
  }

  /** Anything thrown as a HearthError; foreign errors become `Internal` with their message. */
  static from(thrown: unknown): HearthError {
    if (thrown instanceof HearthError) return thrown;
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    return new HearthError('Internal', message, { cause: thrown });
  }
}

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(errorTable, text);
}

/** For `catch()`: an error of this code is no failure; every other one is thrown. */
export function ignoring(code: ErrorCode): (thrown: unknown) => undefined {
  return (thrown) => {
    const error = HearthError.from(thrown);
    if (error.code !== code) throw error;
    return undefined;
  };
}
