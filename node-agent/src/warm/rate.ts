/** A fetching agent, as the division of a job's rate sees it. */
export interface FetchingAgent {
  node: string;
  /** Current share, bytes a second; undefined before the first division. */
  share: bigint | undefined;
  /** Bytes a second taken from the origin since the last division. */
  used: bigint;
}

/**
 * Divides `limit` bytes a second among agents by max-min fairness: no agent gets more than it can use while another
 * could use more. An agent that used nine tenths of its share can use any amount; any other agent is limited by
 * something else (disk, peers) and gets room to double. When all agents together use less than the limit, the rest is
 * spread evenly, so that no agent starts slowly.
 *
 * The shares sum to at most `limit` and each is at least 1, because 0 means "no limit" to the engine; the sum exceeds a
 * limit below the number of agents.
 */
export function divideRate(limit: bigint, agents: readonly FetchingAgent[]): Map<string, bigint> {
  const shares = new Map<string, bigint>();
  if (agents.length === 0) return shares;
  const even = limit / BigInt(agents.length);
  const smallest = largest(even / 10n, 1n);
  const waiting = agents
    .map((agent) => ({ node: agent.node, need: needOf(agent, limit, smallest) }))
    .sort((a, b) => (a.need < b.need ? -1 : a.need > b.need ? 1 : a.node < b.node ? -1 : 1));
  let left = limit;
  waiting.forEach(({ node, need }, index) => {
    const fair = left / BigInt(waiting.length - index);
    const share = largest(need < fair ? need : fair, 1n);
    shares.set(node, share);
    left -= share;
  });
  const extra = left > 0n ? left / BigInt(agents.length) : 0n;
  if (extra > 0n) for (const [node, share] of shares) shares.set(node, share + extra);
  return shares;
}

function needOf(agent: FetchingAgent, limit: bigint, smallest: bigint): bigint {
  if (agent.share === undefined || agent.used * 10n >= agent.share * 9n) return limit;
  return largest(agent.used * 2n, smallest);
}

function largest(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
