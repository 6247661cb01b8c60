import type { Clock, Logger } from '@hearth/common';
import type { Address, Engine } from '@hearth/engine';
import type { Session } from './records/index.ts';
import type { MeteredStore } from './store/index.ts';

/** The record of one agent. */
export interface Member {
  node: string;
  ready: boolean;
  /** Reason why the agent is not ready; empty when ready. */
  reason: string;
  wire: Address[];
  /** Addresses of the control API and of health; empty when other agents cannot reach them. */
  control: string;
  health: string;
  /** Unix socket of the control API, for agents that share a machine and its store; empty: none that others can open. */
  socket: string;
  zone: string;
  rack: string;
  version: string;
  /** Version of the agent's control API. */
  apiVersion: number;
  apiFeatures: string[];
}

/** Live agents, as components of this agent see them. */
export interface Members {
  /** All live agents including this one, sorted by name. */
  all(): readonly Member[];
  /** Names of all live agents including this one. */
  names(): Set<string>;
  /** Members with a cache; other members hold no bytes and serve no requests. */
  caching(): Set<string>;
  /** Members that are ready. */
  ready(): string[];
  /** Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
  /** Sets this agent's zone and rack, which only the cluster knows; published in the background. */
  setPlace(zone: string, rack: string): void;
}

/** Intervals and time limits. Tests shorten them; users cannot. */
export interface Timings {
  /** Interval of reading progress of warm jobs, and minimum time between two progress records of a job. */
  progressMs: number;
  /** Interval of dividing the rates of jobs. */
  divisionMs: number;
  /** Interval of attempts to become coordinator. */
  electionMs: number;
  /** Interval of reading this agent's statistics. */
  statisticsMs: number;
  /** Interval of writing them to the store while an agent of an earlier release is a member. */
  earlierReleasesMs: number;
  /** Interval of publishing the last use of datasets. */
  lastUseMs: number;
  /** Time that ended warm jobs are kept for people to look at. */
  endedJobMs: number;
  /** Time that a job waits for an absent agent. */
  goneGraceMs: number;
  /** Lifetime of the agent's lease; whole seconds. */
  leaseSeconds: number;
  /** Time limit of a request to other agents. */
  requestMs: number;
  /** Time that a mount stays without a published volume. */
  unnamedMountMs: number;
  /** Interval of reading the records of published volumes. */
  publishedScanMs: number;
  /** Interval of probing the machine. */
  probeMs: number;
  /** Interval at which an agent with mounts records that it is alive. */
  seenMs: number;
  /** Mounts of an agent that was not seen for this time no longer count. */
  departedMs: number;
  /** Interval of looking after the space of the store. */
  storeLookMs: number;
  /** The listing of an origin fails when it lists nothing for this time. */
  listingMs: number;
}

export const defaultTimings: Timings = {
  progressMs: 500,
  divisionMs: 2_000,
  electionMs: 2_000,
  statisticsMs: 2_000,
  earlierReleasesMs: 10_000,
  lastUseMs: 60_000,
  endedJobMs: 24 * 3_600_000,
  goneGraceMs: 60_000,
  leaseSeconds: 10,
  requestMs: 30_000,
  unnamedMountMs: 60_000,
  publishedScanMs: 10_000,
  probeMs: 600_000,
  seenMs: 3_600_000,
  departedMs: 86_400_000,
  storeLookMs: 60_000,
  listingMs: 600_000,
};

/** Limits of one dataset, whose list the agent builds in memory with about 360 bytes an entry. */
export interface ListingLimits {
  entries: number;
  /** Length of all paths in UTF-8. */
  nameBytes: number;
}

/** The context shared by all components of the agent. */
export interface AgentContext {
  node: string;
  /** Permanent name of the first cache directory, which this agent alone has locked. */
  installation: string;
  store: MeteredStore;
  engine: Engine;
  session: Session;
  members: Members;
  logger: Logger;
  clock: Clock;
  timings: Timings;
  listing: ListingLimits;
}
