import { within } from '@hearth/common';
import { type ConnectedCluster, connect } from '../explain/connection.ts';
import { type ActionContext, actWith, Output, type OutputOptions } from '../output.ts';
import type { Terminal } from '../terminal.ts';

export interface ClusterOptions extends OutputOptions {
  kubeconfig?: string;
  context?: string;
  namespace?: string;
}

/** One run of one command against a cluster: output, connection and namespaces. */
export class ClusterSession extends Output {
  /** Namespace given by -n. */
  readonly namespace: string | undefined;
  /** Namespace of the Helm release. */
  readonly releaseNamespace: string;
  readonly #options: ClusterOptions;
  #cluster: Promise<ConnectedCluster> | undefined;

  constructor(terminal: Terminal, options: ClusterOptions) {
    super(terminal, options);
    this.namespace = options.namespace;
    this.releaseNamespace = terminal.environment.HEARTH_NAMESPACE || 'hearth-system';
    this.#options = options;
  }

  /** Throws `InvalidArgument` when no kubeconfig names a cluster. */
  cluster(): Promise<ConnectedCluster> {
    this.#cluster ??= connect(this.#options, this.terminal.environment);
    return this.#cluster;
  }

  /** Aborts on the user's interrupt and after the timeout of one answer. */
  signal(): AbortSignal {
    return within(this.terminal.clock, this.timeoutMilliseconds, this.terminal.interrupt);
  }
}

/** A command's action on a cluster. A number returned by it is the exit code; errors are `HearthError`. */
export function actOnCluster<Options, Texts extends unknown[]>(
  context: ActionContext,
  run: (session: ClusterSession, options: Options, ...texts: Texts) => Promise<number | undefined>,
) {
  return actWith(context, (options: ClusterOptions) => new ClusterSession(context.terminal, options), run);
}
