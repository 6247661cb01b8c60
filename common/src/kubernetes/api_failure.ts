import { type ErrorCode, HearthError } from '../error.ts';

/** The fields of a meta/v1 Status that ApiFailure reads. */
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

/** The Status with which the API server refused a request, kept as `cause` of a HearthError. */
export class ApiFailure extends Error {
  /** HTTP status. */
  readonly status: number;
  /** The Status reason, such as NotFound, Expired or Conflict, or ''. */
  readonly reason: string;
  /** Name of the object that the Status refers to, or ''. */
  readonly object: string;
  /** Causes in the Status: invalid fields, or fields owned by other managers. */
  readonly causes: readonly { reason: string; message: string; field: string }[];
  /** Retry delay requested by the server, if any. */
  readonly retryAfterMs: number | undefined;

  /**
   * `body`: text of the response, or object of an ERROR event. `retryAfter`: the Retry-After header in seconds, if
   * present.
   */
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

  /** `what` completes "refused to". */
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
        // Transient: expired versions (410), overload (429), failures of the server or of a webhook (5xx).
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

/** True when the resource version or continue token is too old, or belongs to a replaced etcd: list again. */
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
