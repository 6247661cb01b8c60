import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  status,
  type UntypedHandleCall,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { ControlService } from '../../generated/hearth/v1/control.ts';
import { errorTable, HearthError } from '../../index.ts';

type Answer = (request: unknown) => unknown;

/** Called with each request before the answer. */
export interface Listener {
  request?(name: string, request: unknown): void;
  /** Called when the client cancels a stream. */
  cancelled?(name: string): void;
}

/**
 * A control API with scripted answers by call name; an array for a stream. A thrown error is sent as agents send
 * errors. Calls without an answer fail with UNIMPLEMENTED, as on an older agent.
 */
export function scriptedControl(answers: object, listener: Listener = {}): UntypedServiceImplementation {
  const handlers = Object.entries(answers).map(([name, answer]): [string, UntypedHandleCall] => {
    const { responseStream } = ControlService[name as keyof typeof ControlService];
    const handler = (responseStream ? streaming : unary)(name, answer as Answer, listener);
    return [name, handler as UntypedHandleCall];
  });
  return Object.fromEntries(handlers);
}

function unary(name: string, answer: Answer, listener: Listener): handleUnaryCall<unknown, unknown> {
  return async (call, callback) => {
    listener.request?.(name, call.request);
    try {
      callback(null, await answer(call.request));
    } catch (thrown) {
      callback(serviceError(thrown));
    }
  };
}

function streaming(name: string, answer: Answer, listener: Listener): handleServerStreamingCall<unknown, unknown> {
  return async (call) => {
    listener.request?.(name, call.request);
    call.once('cancelled', () => listener.cancelled?.(name));
    try {
      for await (const message of answer(call.request) as AsyncIterable<unknown>) {
        if (call.cancelled) return;
        call.write(message);
      }
      call.end();
    } catch (thrown) {
      call.emit('error', serviceError(thrown));
    }
  };
}

function serviceError(thrown: unknown) {
  const error = HearthError.from(thrown);
  const metadata = new Metadata();
  metadata.set('hearth-code', error.code);
  return { code: status[errorTable[error.code].grpc], details: error.message, metadata };
}
