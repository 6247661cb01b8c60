import { HearthError } from '@hearth/common';
import type { ClusterAgents } from '../agents/index.ts';
import type { Measure } from './observation.ts';
import { wantedId } from './wanted.ts';

/** A revision never changes, but agents may forget one, and hear of one late. */
const unknownMs = 5_000;
const maxKnown = 10_000;

/** How much the globs choose of revisions, as agents report: each is asked for once. */
export class MeasureCache {
  readonly #known = new Map<string, { dataset: string; measure: Measure; until: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Throws what keeps agents from answering. */
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
    const measure = await this.#ask(agents, { dataset, manifest, paths: [...paths] }, signal);
    const until = measure.kind === 'unknown' ? this.#now() + unknownMs : Number.POSITIVE_INFINITY;
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(id, { dataset, measure, until });
    return measure;
  }

  /** Another Dataset may come by this name, which has other revisions. */
  forget(dataset: string): void {
    for (const [id, known] of this.#known) if (known.dataset === dataset) this.#known.delete(id);
  }

  async #ask(
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
      // Agents say the same of files and of revisions that there are not: without globs it cannot be the files.
      const known = request.paths.length > 0 && (await this.#knows(agents, request, signal));
      return known ? { kind: 'none', message } : { kind: 'unknown', message };
    }
  }

  async #knows(
    agents: Pick<ClusterAgents, 'call'>,
    request: { dataset: string; manifest: string },
    signal: AbortSignal,
  ): Promise<boolean> {
    return await agents.call('measureFiles', { ...request, paths: [] }, { signal }).then(
      () => true,
      () => false,
    );
  }
}
