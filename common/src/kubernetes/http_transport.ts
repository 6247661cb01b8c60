import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { type Clock, epochMs, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import { ApiFailure } from './api_failure.ts';
import type { Connection, Credentials } from './credentials.ts';
import { ServerClock } from './server_clock.ts';

export interface ApiRequest {
  /** Operation in error messages, such as `get Pod default/web`. */
  what: string;
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query relative to the server's address. */
  path: string;
  body?: unknown;
  contentType?: string;
  /** Accept header. Default application/json. */
  accept?: string;
  /** Uses a separate connection pool, so that lease renewals never queue behind other requests. */
  urgent?: boolean;
  signal?: AbortSignal | undefined;
}

type Pool = 'requests' | 'urgent' | 'watches';

/** Maximum number of concurrent requests; further requests wait within their deadlines. Watches do not count. */
const concurrency = 16;
/**
 * The client closes idle connections before the server does; a close by the server would look like a failed request.
 */
const idleConnectionMs = 30_000;
/** Keep-alive detects a vanished peer after this time and ten probes a second apart. */
const probeAfterMs = 15_000;
/** Maximum number of attempts when the server asks for a later retry. */
const tries = 4;

/** Requests to the API server over HTTP/1.1, each with a deadline. */
export class HttpTransport {
  readonly clock = new ServerClock();
  readonly #credentials: Credentials;
  readonly #userAgent: string;
  readonly #time: Clock;
  readonly #agents = new Map<string, http.Agent>();

  constructor(credentials: Credentials, userAgent: string, time: Clock = systemClock) {
    this.#credentials = credentials;
    this.#userAgent = userAgent;
    this.#time = time;
  }

  /** Returns the JSON response; otherwise like `text`. */
  async request(request: ApiRequest, deadlineMs: number): Promise<unknown> {
    return parseJson(await this.text(request, deadlineMs));
  }

  /**
   * Returns the response text. On overload (429 or 503 with Retry-After, where the server did nothing) waits as long as
   * the server asks and retries within the deadline.
   */
  async text(request: ApiRequest, deadlineMs: number): Promise<string> {
    using limit = new Limit(request, deadlineMs, this.#time);
    const until = this.#time.now() + deadlineMs;
    for (let attempt = 1; ; ++attempt) {
      try {
        const response = await this.#send(request, limit, request.urgent ? 'urgent' : 'requests');
        return await limit.during(readText(response), () => response.destroy());
      } catch (thrown) {
        const error = limit.explain(thrown);
        const failure = error.cause instanceof ApiFailure ? error.cause : undefined;
        if (failure?.retryAfterMs === undefined || (failure.status !== 429 && failure.status !== 503)) throw error;
        const wait = Math.max(failure.retryAfterMs, 100) * (1 + this.#time.random() / 2);
        if (attempt === tries || this.#time.now() + wait > until) throw error;
        await sleep(this.#time, wait, limit.signal);
        if (limit.signal.aborted) throw limit.explain(limit.signal.reason);
      }
    }
  }

  /** Returns the response once its headers arrive within the deadline. The caller destroys the response. */
  async stream(request: ApiRequest, headersWithinMs: number): Promise<IncomingMessage> {
    using limit = new Limit(request, headersWithinMs, this.#time);
    try {
      return await this.#send(request, limit, 'watches');
    } catch (thrown) {
      throw limit.explain(thrown);
    }
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }

  async #send(request: ApiRequest, limit: Limit, pool: Pool): Promise<IncomingMessage> {
    const connection = await limit.during(this.#credentials.connection());
    const agent = connection.proxy ?? this.#agent(connection.server.protocol, pool);
    let response: IncomingMessage;
    try {
      response = await this.#exchange(request, connection, agent, limit);
    } catch (thrown) {
      // The server may close an idle connection just as a request uses it; GET is safe to retry.
      if (!(thrown instanceof StaleConnection) || request.method !== 'GET') throw thrown;
      response = await this.#exchange(request, connection, agent, limit);
    }
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return response;
    if (status === 401) this.#credentials.refused();
    const retryAfter = Number.parseInt(response.headers['retry-after'] ?? '', 10);
    const text = await limit.during(readText(response), () => response.destroy());
    throw new ApiFailure(status, text, Number.isNaN(retryAfter) ? undefined : retryAfter);
  }

  #exchange(request: ApiRequest, connection: Connection, agent: http.Agent, limit: Limit): Promise<IncomingMessage> {
    const { server, headers, tls } = connection;
    const body = request.body === undefined ? undefined : Buffer.from(JSON.stringify(request.body));
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const askedAt = epochMs(systemClock);
    const outgoing = (server.protocol === 'http:' ? http : https).request({
      ...tls,
      agent,
      hostname: server.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: server.port === '' ? undefined : Number(server.port),
      method: request.method,
      path: `${server.pathname.replace(/\/$/, '')}${request.path}`,
      headers: {
        ...headers,
        accept: request.accept ?? 'application/json',
        'user-agent': this.#userAgent,
        ...(body === undefined
          ? {}
          : { 'content-type': request.contentType ?? 'application/json', 'content-length': body.length }),
      },
    });
    outgoing.on('response', (response) => {
      this.clock.note(response.headers.date, askedAt, epochMs(systemClock));
      resolve(response);
    });
    outgoing.on('error', (error: NodeJS.ErrnoException) =>
      reject(outgoing.reusedSocket && error.code === 'ECONNRESET' ? new StaleConnection(error) : error),
    );
    outgoing.end(body);
    return limit.during(promise, () => outgoing.destroy());
  }

  /** Node shares a connection only among requests with equal CA and client certificates. */
  #agent(protocol: string, pool: Pool): http.Agent {
    const key = `${protocol} ${pool}`;
    let agent = this.#agents.get(key);
    if (agent === undefined) {
      agent = new (protocol === 'http:' ? http.Agent : https.Agent)({
        keepAlive: true,
        keepAliveMsecs: probeAfterMs,
        timeout: idleConnectionMs,
        maxSockets: pool === 'watches' ? Number.POSITIVE_INFINITY : concurrency,
      });
      this.#agents.set(key, agent);
    }
    return agent;
  }
}

class StaleConnection extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

/** Deadline and signal of one request, and the errors for both. */
class Limit {
  readonly #request: ApiRequest;
  readonly #deadlineMs: number;
  readonly #controller = new AbortController();
  readonly #cancel: () => void;
  readonly #onAbort = () => this.#controller.abort();
  #late = false;

  constructor(request: ApiRequest, deadlineMs: number, clock: Clock) {
    this.#request = request;
    this.#deadlineMs = deadlineMs;
    this.#cancel = clock.schedule(deadlineMs, () => {
      this.#late = true;
      this.#controller.abort();
    });
    if (request.signal?.aborted) this.#controller.abort();
    else request.signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Settles like `work`, or rejects when time is up; `onEnd` then stops the work. */
  async during<T>(work: Promise<T>, onEnd?: () => void): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const end = () => {
      onEnd?.();
      reject(new Error('ended'));
    };
    if (this.signal.aborted) end();
    else this.signal.addEventListener('abort', end, { once: true });
    try {
      return await Promise.race([work, promise]);
    } finally {
      this.signal.removeEventListener('abort', end);
    }
  }

  explain(thrown: unknown): HearthError {
    if (thrown instanceof ApiFailure) return thrown.toHearthError(this.#request.what);
    const { what } = this.#request;
    if (this.#late) {
      const seconds = this.#deadlineMs / 1000;
      return new HearthError('DeadlineExceeded', `The Kubernetes API did not ${what} within ${seconds} s`);
    }
    if (this.#request.signal?.aborted) return new HearthError('Cancelled', `The request to ${what} was cancelled`);
    if (thrown instanceof HearthError) return thrown;
    const { code, message } = thrown as NodeJS.ErrnoException;
    return new HearthError('Unavailable', `The Kubernetes API cannot be reached to ${what}: ${message || code}`, {
      cause: thrown,
    });
  }

  [Symbol.dispose](): void {
    this.#cancel();
    this.#request.signal?.removeEventListener('abort', this.#onAbort);
  }
}

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    throw new HearthError('ProtocolError', `The Kubernetes API sent a response that is not JSON`, { cause: thrown });
  }
}
