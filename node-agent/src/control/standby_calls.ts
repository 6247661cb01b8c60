import { HearthError } from '@hearth/common';
import { type ControlServer, ControlService } from '@hearth/common/generated/hearth/v1/control.ts';
import type { StandbyAgent } from '../agent/index.ts';
import type { Handlers } from './handlers.ts';
import { StatusCalls } from './status_calls.ts';

/**
 * The calls of an agent without a cache: reports the state of the cluster including itself, and refuses all other calls
 * with the reason why it does not serve.
 */
export function standbyCalls(standby: StandbyAgent, cluster: string, handlers: Handlers): ControlServer {
  const refuse = async (): Promise<never> => {
    throw new HearthError('Unavailable', `the agent of this node does not serve: ${standby.reason}`);
  };
  const refusing = Object.entries(ControlService).map(([name, { responseStream }]) => [
    name,
    responseStream ? handlers.streaming(name, () => refusingStream(refuse)) : handlers.unary(name, refuse),
  ]);
  const calls = async (signal: AbortSignal) => new StatusCalls(await standby.sight(signal), cluster);
  const answering: Pick<ControlServer, 'getStatus' | 'watchStatus' | 'configureNode'> = {
    getStatus: handlers.unary('GetStatus', async (request, signal) => {
      return await (await calls(signal)).getStatus(request, signal);
    }),
    watchStatus: handlers.streaming('WatchStatus', async function* (request, signal) {
      yield* (await calls(signal)).watchStatus(request, signal);
    }),
    configureNode: handlers.unary('ConfigureNode', async (request, signal) =>
      (await calls(signal)).configureNode(request),
    ),
  };
  return { ...(Object.fromEntries(refusing) as unknown as ControlServer), ...answering };
}

async function* refusingStream(refuse: () => Promise<never>): AsyncGenerator<never> {
  yield await refuse();
}
