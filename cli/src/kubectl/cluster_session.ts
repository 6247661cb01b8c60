import { within } from '@hearth/common';
import { type ConnectedCluster, connect } from '../explain/connection.ts';
import { type ActionContext, actWith, Output, type OutputOptions } from '../output.ts';
import type { Terminal } from '../terminal.ts';

export interface ClusterOptions extends OutputOptions {
  kubeconfig?: string;
  context?: string;
  namespace?: string;
}

/** One run of one command against a cluster: its output, the cluster, and the namespaces that it is about. */
export class ClusterSession extends Output {
  /** Of -n; undefined: not given. */
  readonly namespace: string | undefined;
  /** Where the release is. */
  readonly releaseNamespace: string;
  readonly #options: ClusterOptions;
  #cluster: Promise<ConnectedCluster> | undefined;

  constructor(terminal: Terminal, options: ClusterOptions) {
    super(terminal, options);
    this.namespace = options.namespace;
    this.releaseNamespace = terminal.environment.HEARTH_NAMESPACE || 'hearth-system';
    this.#options = options;
  }

  /** `InvalidArgument`: no kubeconfig names a cluster. */
  cluster(): Promise<ConnectedCluster> {
    this.#cluster ??= connect(this.#options, this.terminal.environment);
    return this.#cluster;
  }

  /** Aborted by the user, and after the time that one answer may take. */
  signal(): AbortSignal {
    return within(this.terminal.clock, this.timeoutMilliseconds, this.terminal.interrupt);
  }
}

/** The action of a command on a cluster. Its number, if any, is the exit code; errors are `HearthError`. */
export function actOnCluster<Options, Texts extends unknown[]>(
  context: ActionContext,
  run: (session: ClusterSession, options: Options, ...texts: Texts) => Promise<number | undefined>,
) {
  return actWith(context, (options: ClusterOptions) => new ClusterSession(context.terminal, options), run);
}
