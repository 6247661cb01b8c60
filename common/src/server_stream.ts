import type { Client, MethodDefinition } from '@grpc/grpc-js';
import { epochMs, systemClock } from './clock.ts';

/**
 * Yields the messages of a streaming call; leaving the loop, or the signal, cancels the call. `deadlineMs` bounds the
 * whole stream; undefined: no bound. Imports only types of gRPC, since callers with a client have loaded it.
 */
export async function* serverStream<Request, Response>(
  client: Client,
  definition: Pick<MethodDefinition<never, unknown>, 'path' | 'requestSerialize' | 'responseDeserialize'>,
  request: Request,
  { signal, deadlineMs }: { signal: AbortSignal; deadlineMs?: number | undefined },
): AsyncGenerator<Response> {
  const call = client.makeServerStreamRequest<Request, Response>(
    definition.path,
    definition.requestSerialize as (value: Request) => Buffer,
    definition.responseDeserialize as (value: Buffer) => Response,
    request,
    // gRPC deadlines use the system clock.
    deadlineMs === undefined ? {} : { deadline: epochMs(systemClock) + deadlineMs },
  );
  const cancel = () => call.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for await (const answer of call) yield answer as Response;
  } finally {
    signal.removeEventListener('abort', cancel);
    call.cancel();
  }
}
