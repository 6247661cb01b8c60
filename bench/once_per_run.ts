/** Of a run there is one reading, whichever rows or sides look at it. */
export function oncePerRun<T>(read: () => Promise<T>): (run: number) => Promise<T> {
  const readings = new Map<number, Promise<T>>();
  return (run) => {
    const reading = readings.get(run) ?? read();
    readings.set(run, reading);
    return reading;
  };
}
