import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { NodeReport, NodeReportMark } from '@hearth/common/generated/hearth/v1/control.ts';
import type { NodeResidency, NodeStatistics } from './record.ts';
import { reportOf } from './report.ts';

/** Number of removed datasets that are remembered. A caller that missed older ones gets a whole report. */
const maxGone = 1_000;

const nothing: { residency: NodeStatistics['residency'] } = { residency: {} };

/**
 * The agent's figures, and the number of the report in which each part changed last. Holds no past values, so that any
 * number of callers at any distance cost nothing.
 */
export class ReportHistory {
  readonly #incarnation = randomUUID();
  readonly #listeners = new Set<() => void>();
  readonly #changedIn = new Map<string, number>();
  /** In the order of reports. */
  readonly #goneIn = new Map<string, number>();
  #current: NodeStatistics | undefined;
  #sequence = 0;
  #figuresIn = 0;
  /** Removals up to this report were forgotten. */
  #forgotten = 0;

  get current(): NodeStatistics | undefined {
    return this.#current;
  }

  /** Number of the last report; 0: there is none yet. */
  get sequence(): number {
    return this.#sequence;
  }

  /** Takes the present figures; makes a report of them if any differ. */
  note(statistics: NodeStatistics): void {
    const next = this.#sequence + 1;
    const { residency, ...figures } = statistics;
    const { residency: former, ...formerFigures } = this.#current ?? nothing;
    const changed = Object.keys(residency).filter((dataset) => !isDeepStrictEqual(residency[dataset], former[dataset]));
    const gone = Object.keys(former).filter((dataset) => residency[dataset] === undefined);
    const sameFigures = isDeepStrictEqual(figures, formerFigures);
    if (sameFigures && changed.length === 0 && gone.length === 0) return;
    if (!sameFigures) this.#figuresIn = next;
    for (const dataset of changed) {
      this.#changedIn.set(dataset, next);
      this.#goneIn.delete(dataset);
    }
    for (const dataset of gone) {
      this.#changedIn.delete(dataset);
      this.#goneIn.set(dataset, next);
    }
    this.#forgetOld();
    this.#current = statistics;
    this.#sequence = next;
    for (const listener of [...this.#listeners]) listener();
  }

  /**
   * The parts of a report of everything that changed after `known`, at least one; a whole report when `known` is absent,
   * of another start of an agent or too old. `only`: names of datasets; undefined: all. Throws when there is no report
   * yet.
   */
  since(known: NodeReportMark | undefined, only?: ReadonlySet<string>): NodeReport[] {
    const current = this.#current;
    if (current === undefined) throw new Error('there is no report yet');
    const from = this.#continuable(known);
    const after = from ?? 0;
    const changed: { dataset: string; residency: NodeResidency }[] = [];
    for (const [dataset, sequence] of this.#changedIn) {
      if (sequence <= after || only?.has(dataset) === false) continue;
      const residency = current.residency[dataset];
      if (residency !== undefined) changed.push({ dataset, residency });
    }
    return reportOf({
      mark: { incarnation: this.#incarnation, sequence: BigInt(this.#sequence) },
      whole: from === undefined,
      figures: this.#figuresIn > after ? current : undefined,
      changed,
      gone: from === undefined ? [] : [...this.#goneIn].flatMap(([name, sequence]) => (sequence > after ? [name] : [])),
    });
  }

  /** Calls the listener after each report. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #continuable(known: NodeReportMark | undefined): number | undefined {
    if (known === undefined || known.incarnation !== this.#incarnation) return undefined;
    const sequence = Number(known.sequence);
    return sequence >= this.#forgotten && sequence <= this.#sequence ? sequence : undefined;
  }

  #forgetOld(): void {
    for (const [dataset, sequence] of this.#goneIn) {
      if (this.#goneIn.size <= maxGone) return;
      this.#goneIn.delete(dataset);
      this.#forgotten = sequence;
    }
  }
}
