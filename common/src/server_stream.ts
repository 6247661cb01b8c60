import type { Client, MethodDefinition } from '@grpc/grpc-js';
import { epochMs, systemClock } from './clock.ts';

/**
 * The answers of a call as they come; leaving the loop, or the signal, cancels the call. `deadlineMs`: of the whole stream;
 * undefined: it lasts as long as the callee. Types of gRPC alone are needed here: whoever has a client has loaded it.
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
    // gRPC goes by the system's clock.
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
