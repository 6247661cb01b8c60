/** A condition to await; any result other than undefined and false fulfils it. */
export type Condition<T> = () => Promise<T | undefined | false> | T | undefined | false;

/** Generous for a busy machine; a wait that takes longer hangs. */
const longestMs = 300_000;
/** Time between two looks. */
const minMs = 5;
const maxMs = 100;

/**
 * Waits until the condition returns something other than undefined and false, and returns that. Looks again after 5 ms,
 * or after the duration of the last look up to 100 ms, because a look may start a program. Errors of the condition end
 * the wait. The error after five minutes names the awaited state: `what`, or the condition's own text.
 */
export function until<T>(what: string, condition: Condition<T>): Promise<T>;
export function until<T>(condition: Condition<T>): Promise<T>;
export async function until<T>(what: string | Condition<T>, condition?: Condition<T>): Promise<T> {
  const holds = typeof what === 'string' ? condition : what;
  if (holds === undefined) throw new Error(`nothing is waited for: ${what}`);
  const end = performance.now() + longestMs;
  for (;;) {
    const began = performance.now();
    const value = await holds();
    if (value !== undefined && value !== false) return value;
    const now = performance.now();
    if (now > end) throw new Error(`not within ${longestMs / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(now - began, minMs), maxMs)));
  }
}
