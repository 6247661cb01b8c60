import assert from 'node:assert/strict';
import type { Outcome } from '../../src/command.ts';

/** What a program wrote to its standard output; it must have succeeded. */
export async function ok(outcome: Promise<Outcome>): Promise<string> {
  const { code, stdout, stderr } = await outcome;
  assert.equal(code, 0, stderr);
  return stdout;
}
