import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { HearthError, sleep } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { WritableVolumeTables } from './tables.ts';

/** The leader copies its log to so many nodes. */
const maxFollowers = 2;
/** The engine answers at once when its list changes. */
const waitMs = 5_000n;
const retryMs = 200;

export interface FollowedTerm {
  id: string;
  name: string;
  epoch: number;
  /** As the transaction left them that began the term. */
  followers: string[];
}

/**
 * Keeps the store's list of followers as the engine wants it, while this agent leads in that term: until `signal`
 * aborts or the term is over. The engine answers no change while a node on the list is late, so this must not wait for
 * anything else.
 */
export async function keepFollowers(
  context: AgentContext,
  tables: WritableVolumeTables,
  term: FollowedTerm,
  signal: AbortSignal,
): Promise<void> {
  const { engine, members, node, clock, logger } = context;
  const { id, name } = term;
  const epoch = BigInt(term.epoch);
  let listed = term.followers;
  const pushCandidates = (written?: string[]) => {
    const candidates = chooseFollowers(id, node, listed, members.caching());
    engine.setVolumeFollowers({ id, epoch, candidates, listed: written });
  };
  const detach = members.onChange(() => pushCandidates());
  try {
    pushCandidates();
    while (!signal.aborted) {
      const wanted = await engine.volumeFollowersWanted(id, epoch, listed, waitMs);
      if (isDeepStrictEqual(wanted, listed)) continue;
      if (!(await writeFollowers(tables, term, wanted, signal))) {
        await sleep(clock, retryMs, signal);
        continue;
      }
      logger.info('the followers of a volume changed', {
        volume: name,
        epoch: term.epoch,
        followers: wanted.join(' '),
      });
      listed = wanted;
      pushCandidates(wanted);
    }
  } catch (thrown) {
    if (signal.aborted) return;
    logger.debug('the followers of a volume are kept no longer', { volume: name, error: HearthError.from(thrown) });
  } finally {
    detach();
  }
}

/** Nodes that are followers already stay; rendezvous hashing spreads the others. */
export function chooseFollowers(
  id: string,
  leader: string,
  listed: readonly string[],
  caching: ReadonlySet<string>,
): string[] {
  const weight = (node: string) => createHash('sha256').update(`${id} ${node}`).digest('hex');
  const present = listed.filter((node) => node !== leader && caching.has(node));
  const others = [...caching]
    .filter((node) => node !== leader && !present.includes(node))
    .sort((a, b) => (weight(a) < weight(b) ? -1 : 1));
  return [...present, ...others].slice(0, maxFollowers);
}

/** Writes the list if the term still goes on. False: it has not certainly been written, and may be tried again. */
async function writeFollowers(
  { store, volumes }: WritableVolumeTables,
  { name, id, epoch }: FollowedTerm,
  followers: string[],
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const key = volumes.key(name);
    const present = await store.get(key, { signal });
    const record = present === undefined ? undefined : volumes.decode(present).value;
    if (present === undefined || record?.id !== id || record.epoch !== epoch) return false;
    const compare = [{ key, modRevision: present.modRevision }];
    const success = [volumes.replaceOperation(present, { ...record, followers })];
    return (await store.transact({ compare, success }, { signal })).succeeded;
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    return false;
  }
}
