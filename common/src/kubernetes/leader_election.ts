import type { Logger } from '../logger.ts';
import type { KubernetesClient } from './client.ts';

export interface LeaderElectionOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'replace'>;
  namespace: string;
  name: string;
  /** Unique among replicas and restarts, such as the pod's name and a random suffix. */
  identity: string;
  /** A leader that did not renew for this time may be replaced. Absent: 15. */
  leaseSeconds?: number;
  /** A leader that could not renew for this time stops leading. Absent: 10. */
  renewSeconds?: number;
  /** Between tries. Absent: 2. */
  retrySeconds?: number;
  logger: Logger;
  /** Told of every change of the holder; '' when the lease has been released. */
  onLeader?: (identity: string) => void;
}

/** One leader among replicas, by a Lease. */
export declare class LeaderElection {
  constructor(options: LeaderElectionOptions);
  get isLeader(): boolean;
  /**
   * Until `signal` aborts: waits for the lease, runs `lead` with a signal that aborts when the lease is lost, waits for
   * it to end, and tries again. Releases the lease at the orderly end. Returns when `signal` aborts or `lead` returns by
   * itself; errors of `lead` are logged and it is run again after the lease was won again.
   */
  run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void>;
}
