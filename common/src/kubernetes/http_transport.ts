import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { type Clock, epochMs, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import { ApiFailure } from './api_failure.ts';
import type { Connection, Credentials } from './credentials.ts';
import { ServerClock } from './server_clock.ts';

export interface ApiRequest {
  /** For messages: `get Pod default/web`. */
  what: string;
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path and query below the server's address. */
  path: string;
  body?: unknown;
  contentType?: string;
  /** Media types of the answer. Absent: application/json. */
  accept?: string;
  /** Connections of its own: the renewal of a lease must not wait for anything else. */
  urgent?: boolean;
  signal?: AbortSignal | undefined;
}

type Pool = 'requests' | 'urgent' | 'watches';

/** At most so many requests run at a time; more wait within their deadlines. Watches are not counted. */
const concurrency = 16;
/** Idle connections are closed by us first: by the server it would be seen as a failed request. */
const idleConnectionMs = 30_000;
/** A peer that is gone without a word is noticed after this and ten probes a second apart. */
const probeAfterMs = 15_000;
/** How often a request is tried when the server asks for later tries. */
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

  /** The answer's JSON; otherwise as `text`. */
  async request(request: ApiRequest, deadlineMs: number): Promise<unknown> {
    return parseJson(await this.text(request, deadlineMs));
  }

  /**
   * The answer's text. When the server is overloaded and says when to come back (429 or 503 with Retry-After: nothing
   * was done), waits as it asks and tries again within the deadline.
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

  /** The answer as it arrives; headers are there within the deadline. The caller destroys it. */
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
      // The server may close an idle connection at the moment that we use it. Reading twice does no harm.
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

  /** Connections are shared only among requests with the same authorities and client certificate: Node looks at both. */
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

/** Deadline and signal of one request, and what its errors mean. */
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

  /** The promise, or a rejection when the time is over; `onEnd` then stops the work. */
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
    if (this.#request.signal?.aborted) return new HearthError('Cancelled', `Gave up the request to ${what}`);
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
    throw new HearthError('ProtocolError', `The Kubernetes API answered something that is not JSON`, { cause: thrown });
  }
}
