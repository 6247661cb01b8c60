import type { ArenaPages, Statistics } from '@hearth/engine';
import type { Capability } from '../capabilities/index.ts';
import { formatSize } from '../config/index.ts';

const pages: Record<ArenaPages, string> = {
  small: 'pages of 4 KiB',
  transparent: 'transparent pages of 2 MiB',
  'huge-2Mi': 'huge pages of 2 MiB',
  'huge-1Gi': 'huge pages of 1 GiB',
};

/** The agent's memory for chunks as a capability; ready when the holder keeps it for the next agent. Changes rarely. */
export function arenaCapability(arena: Statistics['arena']): Capability {
  const charged = arena.touchedByHolder ? 'charged to the mount holder' : 'charged to the agent';
  const clauses = [
    `${formatSize(arena.bytes)} in ${pages[arena.pages]}`,
    arena.unkept === ''
      ? `kept by the mount holder for the next agent, ${charged}`
      : `not kept for the next agent, ${charged}: ${arena.unkept}`,
    arena.smaller,
    before(arena),
  ];
  if (arena.quarantinedBytes > 0n)
    clauses.push(
      `${formatSize(arena.quarantinedBytes)} are not used, because input or output of an earlier agent may be in progress there`,
    );
  if (arena.reason !== '') clauses.push(`no better pages: ${arena.reason}`);
  if (arena.unplaced !== '') clauses.push(`not placed by NUMA node: ${arena.unplaced}`);
  return { name: 'arena', ready: arena.unkept === '', reason: clauses.filter((clause) => clause !== '').join('; ') };
}

function before({ adopted, givenUp, foundBytes }: Statistics['arena']): string {
  if (givenUp !== '') return `the previous agent's memory was discarded: ${givenUp}`;
  return adopted ? `taken over from the previous agent with ${formatSize(foundBytes)} of chunks` : '';
}
