import type { Client, Metadata, MethodDefinition, ServiceError } from '@grpc/grpc-js';
import { epochMs, systemClock } from './clock.ts';
import { HearthError } from './error.ts';

export interface UnaryCall {
  metadata: Metadata;
  /** Of the whole call, milliseconds. */
  deadlineMs: number;
  /** Gives the call up. */
  signal: AbortSignal;
  /** The callee, for sentences: "the agent". */
  who: string;
  /** The error of a failed call. */
  failure: (error: ServiceError) => unknown;
}

/** One call of a service. Types of gRPC alone are needed here: whoever has a client has loaded it. */
export async function unaryCall<Request, Response>(
  client: Client,
  definition: Pick<MethodDefinition<never, unknown>, 'path' | 'requestSerialize' | 'responseDeserialize'>,
  request: Request,
  { metadata, deadlineMs, signal, who, failure }: UnaryCall,
): Promise<Response> {
  return await new Promise<Response>((resolve, reject) => {
    const call = client.makeUnaryRequest<Request, Response>(
      definition.path,
      definition.requestSerialize as (value: Request) => Buffer,
      definition.responseDeserialize as (value: Buffer) => Response,
      request,
      metadata,
      // gRPC goes by the system's clock.
      { deadline: epochMs(systemClock) + deadlineMs },
      (error, response) => {
        signal.removeEventListener('abort', cancel);
        if (error !== null) reject(failure(error));
        else if (response === undefined) reject(new HearthError('ProtocolError', `${who} answered nothing`));
        else resolve(response);
      },
    );
    const cancel = () => call.cancel();
    signal.addEventListener('abort', cancel, { once: true });
  });
}
