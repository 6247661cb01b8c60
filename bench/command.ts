import { output } from '@hearth/common/testing';

export { root } from '@hearth/common/testing';

/** Runs a program to its end and gives its standard output; a failure is an error with its words. */
export function run(program: string, args: string[], timeoutMs = 600_000): Promise<string> {
  return output(program, args, { timeoutMs });
}

/** Seconds that `action` takes. */
export async function seconds(action: () => Promise<unknown>): Promise<number> {
  const start = process.hrtime.bigint();
  await action();
  return Number(process.hrtime.bigint() - start) / 1e9;
}
