/** Waits, looking every few milliseconds; a machine that is busy has five minutes, and what takes longer hangs. */
export async function until(what: string, holds: () => boolean): Promise<void> {
  const end = performance.now() + 300_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`Not within five minutes: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
