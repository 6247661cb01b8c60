import { HearthError } from '@hearth/common';

/** An agent that could hold a copy. */
export interface Candidate {
  node: string;
  /** Resident bytes of the requested files. */
  residentBytes: bigint;
  /** Bytes that the agent may use and that no pin occupies. */
  availableBytes: bigint;
}

/**
 * Chooses `replicas` agents: among agents with room for the missing bytes, those with the most resident bytes, then the
 * most room, then by name, so that every agent chooses alike. Throws `OutOfSpace` with the number of agents that have
 * room.
 */
export function chooseReplicas(candidates: readonly Candidate[], replicas: number, bytes: bigint): string[] {
  if (candidates.length < replicas) {
    throw new HearthError(
      'Unavailable',
      `${replicas} replicas are wanted, but only ${candidates.length} agents are ready; ask for fewer or start more agents`,
    );
  }
  const roomy = candidates.filter((one) => one.availableBytes >= bytes - one.residentBytes);
  if (roomy.length < replicas) {
    throw new HearthError(
      'OutOfSpace',
      `${replicas} replicas of ${bytes} bytes are wanted, but only ${roomy.length} of ${candidates.length} agents have room; raise budgets, unpin other data or ask for fewer`,
    );
  }
  return [...roomy]
    .sort(
      (a, b) =>
        compare(b.residentBytes, a.residentBytes) ||
        compare(b.availableBytes, a.availableBytes) ||
        (a.node < b.node ? -1 : 1),
    )
    .slice(0, replicas)
    .map((one) => one.node);
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
