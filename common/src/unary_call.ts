import type { Client, Metadata, MethodDefinition, ServiceError } from '@grpc/grpc-js';
import { epochMs, systemClock } from './clock.ts';
import { HearthError } from './error.ts';

export interface UnaryCall {
  metadata: Metadata;
  /** Deadline of the whole call, ms. */
  deadlineMs: number;
  /** Cancels the call. */
  signal: AbortSignal;
  /** The callee in messages: "the agent". */
  callee: string;
  /** Converts the error of a failed call. */
  failure: (error: ServiceError) => unknown;
}

/** Makes one unary call. Imports only types of gRPC, since callers with a client have loaded it. */
export async function unaryCall<Request, Response>(
  client: Client,
  definition: Pick<MethodDefinition<never, unknown>, 'path' | 'requestSerialize' | 'responseDeserialize'>,
  request: Request,
  { metadata, deadlineMs, signal, callee, failure }: UnaryCall,
): Promise<Response> {
  return await new Promise<Response>((resolve, reject) => {
    const call = client.makeUnaryRequest<Request, Response>(
      definition.path,
      definition.requestSerialize as (value: Request) => Buffer,
      definition.responseDeserialize as (value: Buffer) => Response,
      request,
      metadata,
      // gRPC deadlines use the system clock.
      { deadline: epochMs(systemClock) + deadlineMs },
      (error, response) => {
        signal.removeEventListener('abort', cancel);
        if (error !== null) reject(failure(error));
        else if (response === undefined) reject(new HearthError('ProtocolError', `${callee} answered nothing`));
        else resolve(response);
      },
    );
    const cancel = () => call.cancel();
    signal.addEventListener('abort', cancel, { once: true });
  });
}
