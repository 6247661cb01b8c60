import { type ErrorCode, HearthError } from '../error.ts';

/** Status object of the API (meta/v1), as far as it is read. */
interface Status {
  kind?: string;
  code?: number;
  reason?: string;
  message?: string;
  details?: {
    name?: string;
    retryAfterSeconds?: number;
    causes?: { reason?: string; message?: string; field?: string }[];
  };
}

/** The API server's explanation of a refusal (its Status object), as the `cause` of a HearthError. */
export class ApiFailure extends Error {
  /** HTTP status. */
  readonly status: number;
  /** The server's word for programs: NotFound, Expired, Conflict and so on, or ''. */
  readonly reason: string;
  /** The object that it speaks of, or ''. */
  readonly object: string;
  /** The causes that the Status lists: invalid fields, fields that other managers own. */
  readonly causes: readonly { reason: string; message: string; field: string }[];
  /** When to try again, if the server said so. */
  readonly retryAfterMs: number | undefined;

  /** `body` is the answer's text or an ERROR event's object; `retryAfter` the header's seconds, if it was there. */
  constructor(status: number, body: unknown, retryAfter?: number) {
    const said = asStatus(body);
    super(said?.message ?? `HTTP status ${status}${plainText(body)}`);
    this.name = 'ApiFailure';
    this.status = said?.code ?? status;
    this.reason = said?.reason ?? '';
    this.object = said?.details?.name ?? '';
    this.causes = (said?.details?.causes ?? []).map(({ reason = '', message = '', field = '' }) => ({
      reason,
      message,
      field,
    }));
    const seconds = retryAfter ?? said?.details?.retryAfterSeconds;
    this.retryAfterMs = seconds === undefined ? undefined : seconds * 1000;
  }

  /** As the one class of errors, with what was tried. */
  toHearthError(what: string): HearthError {
    return new HearthError(this.#code(), `Kubernetes refused to ${what}: ${this.message}`, { cause: this });
  }

  #code(): ErrorCode {
    switch (this.status) {
      case 400:
      case 413:
      case 422:
        return 'InvalidArgument';
      case 401:
        return 'Unauthenticated';
      case 403:
        return 'PermissionDenied';
      case 404:
        return 'NotFound';
      case 405:
      case 406:
      case 415:
        return 'Unsupported';
      case 409:
        return this.reason === 'AlreadyExists' ? 'AlreadyExists' : 'Conflict';
      case 504:
        return 'DeadlineExceeded';
      default:
        // Too old versions (410), overload (429) and failures of the server or of a webhook (5xx) pass.
        return this.status === 410 || this.status === 429 || this.status >= 500 ? 'Unavailable' : 'ProtocolError';
    }
  }
}

/** The API server's answer behind an error; undefined when none was received. */
export function apiFailure(thrown: unknown): ApiFailure | undefined {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    if (error instanceof ApiFailure) return error;
  }
  return undefined;
}

/** The resource version or continue token is too old, or of a store that is no more: list again. */
export function isExpired(thrown: unknown): boolean {
  const failure = apiFailure(thrown);
  if (failure === undefined) return false;
  return (
    failure.status === 410 ||
    failure.reason === 'Expired' ||
    failure.reason === 'Gone' ||
    failure.causes.some((cause) => cause.reason === 'ResourceVersionTooLarge')
  );
}

function asStatus(body: unknown): Status | undefined {
  let value = body;
  if (typeof body === 'string') {
    try {
      value = JSON.parse(body);
    } catch {
      return undefined;
    }
  }
  const status = value as Status | null;
  return typeof status === 'object' && status?.kind === 'Status' ? status : undefined;
}

/** The start of an answer that is no Status, such as a proxy's page. */
function plainText(body: unknown): string {
  const text = typeof body === 'string' ? body.trim().replace(/\s+/g, ' ') : '';
  return text === '' ? '' : ` (${text.slice(0, 200)})`;
}
