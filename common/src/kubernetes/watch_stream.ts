import type { IncomingMessage } from 'node:http';
import { type Clock, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import { ApiFailure } from './api_failure.ts';
import type { WatchEvent } from './client.ts';
import type { KubernetesObject } from './object.ts';

/** Far above the largest object that the API server stores (1.5 MiB in etcd, about twice that as JSON). */
const maxLineLength = 16 * 1024 * 1024;
const newline = 0x0a;

export interface WatchLimits {
  /** For messages: `watch Pods`. */
  what: string;
  /** Without a complete event for this time the connection counts as dead, even if bytes trickle in. */
  idleMs: number;
  /** Maximum life of the stream, slightly above the timeout requested from the server. */
  lifeMs: number;
  signal: AbortSignal;
}

interface Line {
  type?: string;
  object?: KubernetesObject;
}

/**
 * Events of a watch response, one JSON object a line. Returns when the server ends the stream; throws on any other end.
 */
export async function* watchEvents<T extends KubernetesObject>(
  response: IncomingMessage,
  limits: WatchLimits,
  clock: Clock = systemClock,
): AsyncGenerator<WatchEvent<T>, void, void> {
  const { what, idleMs, lifeMs, signal } = limits;
  const late = (ms: number) =>
    response.destroy(new HearthError('DeadlineExceeded', `Received nothing on ${what} for ${ms / 1000} s`));
  const silence = () => clock.schedule(idleMs, () => late(idleMs));
  let idle = silence();
  const life = clock.schedule(lifeMs, () => late(lifeMs));
  const onAbort = () => response.destroy(new HearthError('Cancelled', `The request to ${what} was cancelled`));
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    for await (const line of lines(response)) {
      idle();
      idle = silence();
      yield parseEvent<T>(line, what);
    }
  } catch (thrown) {
    if (thrown instanceof HearthError) throw thrown;
    throw new HearthError(
      'Unavailable',
      `The connection broke during the request to ${what}: ${(thrown as Error).message}`,
      {
        cause: thrown,
      },
    );
  } finally {
    idle();
    life();
    signal.removeEventListener('abort', onAbort);
    response.destroy();
  }
}

function parseEvent<T extends KubernetesObject>(line: string, what: string): WatchEvent<T> {
  let event: Line;
  try {
    event = JSON.parse(line) as Line;
  } catch (thrown) {
    throw new HearthError('ProtocolError', `Received data on ${what} that is not JSON`, { cause: thrown });
  }
  const { type, object } = event;
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      if (typeof object !== 'object' || object?.metadata?.resourceVersion === undefined) break;
      return { type, object: object as T };
    case 'BOOKMARK':
      if (object?.metadata?.resourceVersion === undefined) break;
      return { type, resourceVersion: object.metadata.resourceVersion };
    case 'ERROR':
      throw new ApiFailure(500, object).toHearthError(what);
  }
  throw new HearthError(
    'ProtocolError',
    `Received an event of type ${JSON.stringify(type)} on ${what} without its object`,
  );
}

/** Yields whole lines. A truncated last line is an error, because events must not be lost silently. */
async function* lines(response: IncomingMessage): AsyncGenerator<string, void, void> {
  let started: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    let from = 0;
    for (let to = chunk.indexOf(newline); to >= 0; to = chunk.indexOf(newline, from)) {
      started.push(chunk.subarray(from, to));
      from = to + 1;
      const line = (started.length === 1 ? started[0] : Buffer.concat(started))?.toString('utf8') ?? '';
      started = [];
      length = 0;
      if (line.trim() !== '') yield line;
    }
    if (from < chunk.length) started.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > maxLineLength)
      throw new HearthError('ProtocolError', `A watch event is longer than ${maxLineLength} bytes`);
  }
  if (length > 0) throw new HearthError('Unavailable', 'The connection was cut in the middle of a watch event');
}
