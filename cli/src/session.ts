import { resolve } from 'node:path';
import type { AgentConfig, Setting } from '@hearth/node-agent/config';
import { AgentClient } from './client/agent_client.ts';
import { type ActionContext, actWith, Output, type OutputOptions } from './output.ts';
import type { Terminal } from './terminal.ts';

export {
  collect,
  collectWhole,
  defaultTimeoutSeconds,
  examples,
  firstLines,
  recorder,
  watchSeconds,
  wholeNumber,
} from './output.ts';

export const defaultSocket = '/run/hearth/agent.sock';

interface GlobalOptions extends OutputOptions {
  socket?: string;
}

/** One run of one command that may ask an agent: output and connection. */
export class Session extends Output {
  readonly socket: string;

  constructor(terminal: Terminal, options: GlobalOptions) {
    super(terminal, options);
    this.socket = resolve(terminal.directory, options.socket ?? (terminal.environment.HEARTH_SOCKET || defaultSocket));
  }

  /** Runs `body` with a connection, then closes it. */
  async withAgent<Result>(body: (agent: AgentClient) => Promise<Result>): Promise<Result> {
    const agent = await AgentClient.connect({
      socket: this.socket,
      timeoutMilliseconds: this.timeoutMilliseconds,
      signal: this.terminal.interrupt,
    });
    try {
      return await body(agent);
    } finally {
      agent.close();
    }
  }
}

/** Runs an agent in this process until the signal aborts; shuts down cleanly. */
export type AgentRunner = (config: AgentConfig, signal: AbortSignal) => Promise<void>;

/** Context of the command tree of `hearth`. */
export interface CommandContext extends ActionContext {
  runAgent: AgentRunner;
  /** Settings of the agent; empty when the command line cannot concern the agent, because they load slowly. */
  agentSettings: readonly Setting[];
}

/** A command's action. A number returned by it is the exit code; errors are `HearthError`. */
export function act<Options, Texts extends unknown[]>(
  context: ActionContext,
  run: (session: Session, options: Options, ...texts: Texts) => Promise<number | undefined>,
) {
  return actWith(context, (options: GlobalOptions) => new Session(context.terminal, options), run);
}
