import { median } from '../../bench/result.ts';

interface Sample {
  at: number;
  bytes: number;
}

/** Resident memory of agents over a run: it may grow while caches fill, and then stays. */
export class MemoryWatch {
  readonly #samples = new Map<string, Sample[]>();

  /** `bytes` is NaN for a process that is just ending. */
  note(agent: string, bytes: number): void {
    if (Number.isNaN(bytes)) return;
    const samples = this.#samples.get(agent) ?? [];
    samples.push({ at: Date.now(), bytes });
    this.#samples.set(agent, samples);
  }

  /**
   * For each agent the median of the second and of the last quarter of its samples. An agent that is killed again and
   * again begins from nothing, so a leak shows between kills: these are medians, not ends.
   */
  summary(): { agent: string; before: number; after: number; most: number }[] {
    return [...this.#samples].map(([agent, samples]) => {
      const bytes = samples.map((sample) => sample.bytes);
      const quarter = Math.floor(bytes.length / 4);
      return {
        agent,
        before: median(bytes.slice(quarter, 2 * quarter)),
        after: median(bytes.slice(3 * quarter)),
        most: Math.max(0, ...bytes),
      };
    });
  }
}
