import { HearthError } from '@hearth/common';

/** An agent that could hold a copy. */
export interface Candidate {
  node: string;
  /** Bytes of the files asked that it holds already. */
  residentBytes: bigint;
  /** Bytes that it may use and that pins have not taken. */
  availableBytes: bigint;
}

/**
 * The `replicas` agents that hold most of the bytes already, among those with room for the rest; then those
 * with most room; then by name, so that every agent would choose the same. `OutOfSpace` says how many have room.
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
