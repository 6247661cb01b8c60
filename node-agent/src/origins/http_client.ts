import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { backOffMs, type Clock, epochMs, HearthError, sleep } from '@hearth/common';
import type { AddressPolicy } from './address_policy.ts';
import type { Connections } from './connections.ts';
import { connectionError, isTransientStatus, refusalOf } from './http_error.ts';
import { printableUrl } from './printable_url.ts';
import { withoutAuthorization } from './refusal_words.ts';

export interface HttpRequest {
  method: 'GET' | 'HEAD';
  url: URL;
  headers?: Record<string, string>;
  /** Authorization header; sent only to the scheme, host and port of `url`, whatever the redirects. */
  authorization?: string;
  /** 'sameHost' returns a redirect to another host instead of following it; 'none' returns every redirect. */
  redirects: 'follow' | 'sameHost' | 'none';
  /**
   * Reads at most this many bytes of the body and cancels the rest; reads a few more of an error response for its
   * message.
   */
  bodyLimit: number;
  /** Absent: those of the client. */
  attempts?: number;
  /** A transient fault of a response, to be retried; undefined: none. */
  passing?: (response: HttpResponse) => HearthError | undefined;
  signal: AbortSignal;
}

export interface HttpResponse {
  status: number;
  headers: IncomingHttpHeaders;
  /** URL of the response, after redirects. */
  url: URL;
  /** Target of a redirect that was not followed. */
  redirect?: URL;
  body: Buffer;
  /** True when the body exceeded the limit and is cut. */
  truncated: boolean;
}

export interface HttpClientOptions {
  attempts: number;
  /** Pause before the second attempt; doubles with each further attempt, with jitter. */
  pauseMs: number;
  /** Time limit of one attempt, including the body. */
  attemptMs: number;
  clock: Clock;
}

/** A response, or an error with the minimum pause before a retry (undefined: do not retry). */
type Outcome = { response: HttpResponse } | { error: HearthError; retryAfterMs: number | undefined };

/** Equal to the engine's limit. */
const maxRedirects = 5;
const maxPauseMs = 60_000;
const refusalBytes = 4096;
/** Machines behind a proxy may have no working DNS. */
const lookMs = 2_000;

/** Small requests (metadata, listings) to origins, with address policy, redirects, retries and deadlines. */
export class HttpClient {
  readonly #connections: Connections;
  readonly #policy: AddressPolicy;
  readonly #options: HttpClientOptions;
  /** Pending lookups of hosts behind a proxy. */
  readonly #looks = new Map<string, Promise<void>>();

  constructor(connections: Connections, policy: AddressPolicy, options: HttpClientOptions) {
    this.#connections = connections;
    this.#policy = policy;
    this.#options = options;
  }

  /**
   * Returns a response with any status that retrying cannot change. Retries other statuses (429, 5xx) and failed
   * connections, honouring Retry-After up to a minute, and finally throws `Unavailable`. Also throws `Unauthenticated`
   * (certificate), `PermissionDenied` (address policy), `ProtocolError`, `Cancelled`.
   */
  async request(request: HttpRequest): Promise<HttpResponse> {
    const { attempts = this.#options.attempts } = request;
    for (let attempt = 1; ; attempt++) {
      const outcome = await this.#attempt(request);
      if ('response' in outcome) return outcome.response;
      if (outcome.retryAfterMs === undefined || attempt >= attempts) throw outcome.error;
      const { pauseMs, clock } = this.#options;
      const pause = backOffMs(clock, attempt - 1, { firstMs: pauseMs, longestMs: maxPauseMs });
      await sleep(clock, Math.max(pause, outcome.retryAfterMs), request.signal);
      if (request.signal.aborted) throw cancelled(request);
    }
  }

  get clock(): Clock {
    return this.#options.clock;
  }

  /** Closes idle and busy connections. */
  close(): void {
    this.#connections.close();
  }

  async #attempt(request: HttpRequest): Promise<Outcome> {
    try {
      const response = await this.#followed(request);
      const error = isTransientStatus(response.status) ? refusalOf(response) : request.passing?.(response);
      if (error === undefined) return { response };
      const asked = retryAfterMs(response.headers['retry-after'], epochMs(this.#options.clock));
      return { error, retryAfterMs: asked > maxPauseMs ? undefined : asked };
    } catch (thrown) {
      if (request.signal.aborted) return { error: cancelled(request), retryAfterMs: undefined };
      const proxy = this.#connections.proxyFor(request.url);
      const { error, mayPass } = connectionError(thrown, request.url.host, proxy);
      return { error, retryAfterMs: mayPass ? 0 : undefined };
    }
  }

  async #followed(request: HttpRequest): Promise<HttpResponse> {
    let url = request.url;
    for (let hop = 0; hop <= maxRedirects; hop++) {
      const response = await this.#once(request, url);
      const target = redirectTarget(response);
      if (target === undefined) return response;
      await this.#check(target);
      const isFollowed =
        request.redirects === 'follow' || (request.redirects === 'sameHost' && target.origin === url.origin);
      if (!isFollowed) return { ...response, redirect: target };
      url = target;
    }
    throw new HearthError(
      'ProtocolError',
      `${printableUrl(request.url)} redirects more than ${maxRedirects} times; check the server`,
    );
  }

  /**
   * A proxy resolves names itself, bypassing the policy's lookup. A name that this machine resolves to a refused
   * address is still refused; the proxy decides about other names.
   */
  async #check(url: URL): Promise<void> {
    this.#policy.checkUrl(url);
    if (this.#connections.proxyFor(url) === '') return;
    let look = this.#looks.get(url.hostname);
    if (look === undefined) {
      const passed = Promise.withResolvers<void>();
      const inTime = this.#options.clock.schedule(lookMs, passed.resolve);
      look = Promise.race([this.#policy.checkHost(url), passed.promise]).finally(inTime);
      this.#looks.set(url.hostname, look);
    }
    await look;
  }

  async #once(request: HttpRequest, url: URL): Promise<HttpResponse> {
    await this.#check(url);
    const headers: Record<string, string> = {
      'accept-encoding': 'identity',
      'user-agent': 'hearth',
      ...request.headers,
    };
    if (request.authorization !== undefined && url.origin === request.url.origin) {
      headers.authorization = request.authorization;
    }
    const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
    const secure = url.protocol === 'https:';
    const outgoing = (secure ? httpsRequest : httpRequest)(url, {
      method: request.method,
      headers,
      agent: this.#connections.agentsFor(url)[secure ? 'https' : 'http'],
      signal: request.signal,
    });
    const { clock, attemptMs } = this.#options;
    const inTime = clock.schedule(attemptMs, () => outgoing.destroy(new TimedOut()));
    outgoing.on('error', reject);
    outgoing.on('response', (message) => {
      const { statusCode: status = 0 } = message;
      const isRefusal = status >= 400;
      readBody(message, isRefusal ? Math.max(request.bodyLimit, refusalBytes) : request.bodyLimit).then(
        ({ body, truncated }) => {
          const shown = isRefusal ? withoutAuthorization(body, headers.authorization) : body;
          resolve({ status, headers: message.headers, url, body: shown, truncated });
        },
        reject,
      );
    });
    outgoing.end();
    return promise.finally(inTime);
  }
}

function cancelled(request: HttpRequest): HearthError {
  return new HearthError('Cancelled', `the request to ${printableUrl(request.url)} was cancelled`);
}

class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
}

async function readBody(message: IncomingMessage, limit: number): Promise<{ body: Buffer; truncated: boolean }> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of message as AsyncIterable<Buffer>) {
    length += piece.length;
    pieces.push(piece);
    // Leaving the loop destroys the stream and its connection, so the rest is never transferred.
    if (length > limit) return { body: Buffer.concat(pieces).subarray(0, limit), truncated: true };
  }
  return { body: Buffer.concat(pieces), truncated: false };
}

function redirectTarget(response: HttpResponse): URL | undefined {
  if (![301, 302, 303, 307, 308].includes(response.status)) return undefined;
  const location = response.headers.location;
  if (location === undefined || !URL.canParse(location, response.url.href)) {
    throw new HearthError(
      'ProtocolError',
      `${printableUrl(response.url)} redirects without saying where to; check the server`,
    );
  }
  const target = new URL(location, response.url);
  if (target.protocol !== 'https:' && target.protocol !== response.url.protocol) {
    throw new HearthError(
      'ProtocolError',
      `${printableUrl(response.url)} redirects to ${target.protocol}//, which is less secure than the URL given; correct the server or give that URL`,
    );
  }
  return target;
}

/** The delay in Retry-After (RFC 9110, 10.2.3: seconds or a date), ms; 0 without one. */
function retryAfterMs(header: string | undefined, now: number): number {
  if (header === undefined) return 0;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? 0 : Math.max(0, date - now);
}
