import { Histogram, type Registry } from '@prometheus-io/client';
import type { HistogramRow, Seen } from './metric_row.ts';

/** A histogram with buckets counted by the engine; observe() has no use here. */
export class CountedHistogram extends Histogram<string> {
  readonly #row: HistogramRow;
  readonly #seen: Seen;

  constructor(row: HistogramRow, seen: Seen, registry: Registry) {
    super({ name: row.name, help: row.help, labelNames: row.labels, buckets: [...row.bounds], registers: [registry] });
    this.#row = row;
    this.#seen = seen;
  }

  /** The registry calls this instead of get(). */
  getForPromString() {
    const { name, help, labels, bounds, read } = this.#row;
    const values = read(this.#seen).flatMap(([texts, { counts, sum }]) => {
      const labelled = Object.fromEntries(labels.map((label, index) => [label, texts[index] ?? '']));
      let below = 0;
      const buckets = counts.map((count, index) => {
        below += count;
        return { metricName: `${name}_bucket`, labels: { ...labelled, le: bounds[index] ?? '+Inf' }, value: below };
      });
      return [
        ...buckets,
        { metricName: `${name}_sum`, labels: labelled, value: sum },
        { metricName: `${name}_count`, labels: labelled, value: below },
      ];
    });
    return { name, help, type: 'histogram', values };
  }
}
