import type { Outcome } from './command.ts';

/** How a failed test can be run once more. Absent for builds, lint, sanitizers, crashes and wrong bytes. */
export type Rerun = { runner: 'ctest'; folder: string; name: string } | { runner: 'mocha'; file: string };

export interface Failure {
  /** Name of a test or step. */
  name: string;
  /** Its first error on one line; empty when the output above says it. */
  reason: string;
  rerun?: Rerun;
}

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
  failures: Failure[];
}

export const nothing: Counts = { passed: 0, failed: 0, skipped: 0, failures: [] };

export const failedStep = (name: string, reason = ''): Counts => ({
  passed: 0,
  failed: 1,
  skipped: 0,
  failures: [{ name, reason }],
});

export const step = (name: string, { code }: Outcome): Counts =>
  code === 0 ? { ...nothing, passed: 1 } : failedStep(name);

export function add(a: Counts, b: Counts): Counts {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    failures: [...a.failures, ...b.failures],
  };
}

/** Wrong bytes are never a matter of chance, whatever a second run says. */
export const saysWrongBytes = (text: string): boolean =>
  /wrong byte|bytes? differ|differs? (at|in|from) (byte|offset)|mismatch(es)?\b|corrupt/i.test(text);
