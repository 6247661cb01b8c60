import { HearthError } from '@hearth/common';
import type { ClusterAgents } from '../agents/index.ts';
import type { Measure } from './observation.ts';
import { wantedId } from './wanted.ts';

/** A revision never changes, but agents may forget a revision or learn of one late. */
const unknownMs = 5_000;
const maxKnown = 10_000;

/** Files and bytes that globs choose of a revision, as agents report; asks once for each. */
export class MeasureCache {
  readonly #known = new Map<string, { dataset: string; measure: Measure; until: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Throws the error of the agents' answer. */
  async measure(
    agents: Pick<ClusterAgents, 'call'>,
    dataset: string,
    manifest: string,
    paths: readonly string[],
    signal: AbortSignal,
  ): Promise<Measure> {
    const id = wantedId(dataset, manifest, paths);
    const known = this.#known.get(id);
    if (known !== undefined && known.until > this.#now()) return known.measure;
    const measure = await this.#request(agents, { dataset, manifest, paths: [...paths] }, signal);
    const until = measure.kind === 'unknown' ? this.#now() + unknownMs : Number.POSITIVE_INFINITY;
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(id, { dataset, measure, until });
    return measure;
  }

  /** Another Dataset of this name may have other revisions. */
  forget(dataset: string): void {
    for (const [id, known] of this.#known) if (known.dataset === dataset) this.#known.delete(id);
  }

  async #request(
    agents: Pick<ClusterAgents, 'call'>,
    request: { dataset: string; manifest: string; paths: string[] },
    signal: AbortSignal,
  ): Promise<Measure> {
    try {
      const { files, bytes } = await agents.call('measureFiles', request, { signal });
      return { kind: 'files', files, bytes };
    } catch (thrown) {
      const { code, message } = HearthError.from(thrown);
      if (code !== 'NotFound') throw thrown;
      // NotFound may concern the revision or its files. Without globs it concerns the revision.
      const isKnown =
        request.paths.length > 0 &&
        (await agents.call('measureFiles', { ...request, paths: [] }, { signal }).then(
          () => true,
          () => false,
        ));
      return isKnown ? { kind: 'none', message } : { kind: 'unknown', message };
    }
  }
}
