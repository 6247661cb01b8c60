import type { Clock, Logger } from '@hearth/common';
import type { Address, Engine } from '@hearth/engine';
import type { Session } from './records/index.ts';
import type { Store } from './store/index.ts';

/** An agent's record of itself. */
export interface Member {
  node: string;
  ready: boolean;
  /** Why it is not ready; empty when it is. */
  reason: string;
  wire: Address[];
  /** Addresses of the control API and of health; empty when it has none that others can reach. */
  control: string;
  health: string;
  zone: string;
  rack: string;
  version: string;
  /** Of its control API. */
  apiVersion: number;
  apiFeatures: string[];
}

/** The agents that are alive as the rooms of this agent need to see them. */
export interface Members {
  /** All of them, this agent included, by name. */
  all(): Member[];
  /** Names of all agents that are alive, this one included. */
  names(): Set<string>;
  /** Members that have a cache: the others hold nothing, and serve no requests. */
  caching(): Set<string>;
  /** Members that are ready. */
  ready(): string[];
  /** Returns the function that ends it. */
  onChange(listener: () => void): () => void;
  /** Where this agent is, which only others know; published in the background. */
  setPlace(zone: string, rack: string): void;
}

/** How often things are done. Tests shorten them; users cannot. */
export interface Pace {
  /** Reading progress of warm jobs from the engine, and at most one record for each. */
  progressMs: number;
  /** Division of a job's rate. */
  divisionMs: number;
  /** Trying to become the coordinator. */
  electionMs: number;
  /** Publishing statistics. */
  statisticsMs: number;
  /** Publishing last use of datasets. */
  lastUseMs: number;
  /** A warm job that has ended stays this long for people to look at. */
  endedJobMs: number;
  /** An agent that a job names is waited for this long after it went away. */
  goneGraceMs: number;
  /** Life of the agent's lease; a whole number of seconds. */
  leaseSeconds: number;
  /** Time that other agents have to answer a request. */
  requestMs: number;
  /** A mount that no published volume names stays for this long. */
  unnamedMountMs: number;
  /** Looking at what is published on this node. */
  publishedScanMs: number;
  /** Looking at what the machine offers. */
  probeMs: number;
  /** An agent with mounts writes down that it is alive. */
  seenMs: number;
  /** Mounts of an agent that was not seen for this long do not count any more. */
  departedMs: number;
  /** The listing of an origin ends when it has listed nothing for this long. */
  listingMs: number;
}

export const defaultPace: Pace = {
  progressMs: 500,
  divisionMs: 2_000,
  electionMs: 2_000,
  statisticsMs: 2_000,
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
  listingMs: 600_000,
};

/** Limits of one dataset: its list is built in the agent's memory, about 360 bytes an entry. */
export interface ListingLimits {
  entries: number;
  /** Of all paths, UTF-8. */
  nameBytes: number;
}

/** The context of every room of the agent. */
export interface AgentContext {
  node: string;
  store: Store;
  engine: Engine;
  session: Session;
  members: Members;
  logger: Logger;
  clock: Clock;
  pace: Pace;
  /** Limits of one dataset. */
  listing: ListingLimits;
}
