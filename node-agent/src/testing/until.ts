/** Waits until the condition holds, looking every few milliseconds; fails after the time with what was waited for. */
export async function until(condition: () => boolean | Promise<boolean>, milliseconds = 300_000): Promise<void> {
  const end = performance.now() + milliseconds;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not within ${milliseconds} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
