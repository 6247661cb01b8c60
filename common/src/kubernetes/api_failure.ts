/** What the API server said of a request that it refused (the Status object), as the `cause` of a HearthError. */
export declare class ApiFailure extends Error {
  /** HTTP status. */
  readonly status: number;
  /** Machine-readable word of the server: NotFound, Expired, Conflict, ... or ''. */
  readonly reason: string;
  /** Fields or details that it names, such as the field managers of a conflict. */
  readonly causes: { reason: string; message: string; field: string }[];
  /** When to try again, if the server said so. */
  readonly retryAfterMs: number | undefined;
}

/** The API server's answer behind an error; undefined when none was received. */
export declare function apiFailure(thrown: unknown): ApiFailure | undefined;
/** The resource version or continue token is too old (410 Gone, Expired): list again. */
export declare function isExpired(thrown: unknown): boolean;
