import type { ClientUnaryCall, ServiceError } from '@grpc/grpc-js';

/** One unary call as a promise; an abort cancels it and rejects with the signal's reason. */
export async function unary<Response>(
  signal: AbortSignal,
  start: (answer: (error: ServiceError | null, response: Response) => void) => ClientUnaryCall,
): Promise<Response> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const call = start((error, response) => {
    if (error === null) resolve(response);
    else reject(signal.aborted ? signal.reason : error);
  });
  const cancel = (): void => call.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}
