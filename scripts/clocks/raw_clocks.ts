// Time is a seam (common/src/clock.ts, native/base/clock.h): code that reads the system's clock or sets its timers itself cannot be tested
// without waiting. A socket's own timeout (`socket.setTimeout`) belongs to the socket, and gRPC's deadlines are of
// `systemClock`, as gRPC goes by no other.

/** Comments, texts, and what is a clock or a timer of the system; `rather` says what to write instead. */
const token =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|(?<raw>\bDate\.now\b|\bperformance\.now\b|\bprocess\.hrtime\b|\bnew Date\(\)|\bAbortSignal\.timeout\b|(?<![.\w])set(?:Timeout|Interval)\b|\b(?:steady|system|high_resolution)_clock::now\b)/g;

const rather: Readonly<Record<string, string>> = {
  'Date.now': 'epochMs(clock)',
  'performance.now': 'clock.now()',
  'process.hrtime': 'clock.now()',
  'new Date()': 'clock.date()',
  'AbortSignal.timeout': 'clock.timeout(ms) or within(clock, ms, signal)',
  setTimeout: 'clock.schedule(ms, run) or sleep(clock, ms, signal)',
  setInterval: 'clock.every(ms, run) or RecurringWork',
  'steady_clock::now': 'Clock::now()',
  'system_clock::now': 'WallClock::now()',
  'high_resolution_clock::now': 'Clock::now()',
};

/** Sentences: each use of a clock of the system in a source file of TypeScript. Code in templates (`${}`) is seen too. */
export function faultsOf(path: string, source: string): string[] {
  const faults: string[] = [];
  for (const { groups, index } of source.matchAll(token)) {
    const raw = groups?.raw;
    if (raw === undefined) continue;
    const line = source.slice(0, index).split('\n').length;
    faults.push(`${path}:${line}: ${raw} is the system's; write ${rather[raw]}`);
  }
  return faults;
}
