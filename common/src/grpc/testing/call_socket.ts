import { Client, credentials, Metadata, type MethodDefinition } from '@grpc/grpc-js';

/**
 * Calls a service on a Unix socket with authority `localhost`, as the kubelet does. The default deadline is five
 * minutes.
 */
export async function callSocket<Q, R>(
  socket: string,
  method: MethodDefinition<Q, R>,
  request: Q,
  options: { deadlineMs?: number; authority?: string } = {},
): Promise<R> {
  const client = new Client(`unix://${socket}`, credentials.createInsecure(), {
    'grpc.default_authority': options.authority ?? 'localhost',
  });
  try {
    return await new Promise<R>((resolve, reject) => {
      client.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        new Metadata(),
        { deadline: Date.now() + (options.deadlineMs ?? 300_000) },
        (error, response) => (error === null ? resolve(response as R) : reject(error)),
      );
    });
  } finally {
    client.close();
  }
}
