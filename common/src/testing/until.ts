/** A condition to wait for: anything but undefined and false fulfils it. */
export type Condition<T> = () => Promise<T | undefined | false> | T | undefined | false;

/** On a machine that is busy; what takes longer hangs. */
const longestMs = 300_000;
/** Between two looks. */
const minMs = 5;
const maxMs = 100;

/**
 * Waits until the condition gives something but undefined or false, and gives that. Looks again after 5 ms, or as long as a
 * look takes, as those that start programs do, up to 100 ms. What the condition throws ends the waiting. The error after
 * five minutes says what was waited for: `what`, or the condition's own text.
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
