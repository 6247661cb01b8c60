import { createLogger, HearthError, type Logger, type LogLevel } from '@hearth/common';

const levels: readonly string[] = ['debug', 'info', 'warn', 'error'];

/** Runs a program until it ends or gets SIGTERM. Prints an error and returns the exit code. */
export async function runProcess(
  program: string,
  run: (logger: Logger, signal: AbortSignal) => Promise<void>,
): Promise<number> {
  const ending = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => ending.abort());
  try {
    await run(createLogger({ level: logLevel(process.env.HEARTH_LOG_LEVEL), format: 'auto' }), ending.signal);
    return 0;
  } catch (thrown) {
    const error = HearthError.from(thrown);
    process.stderr.write(`${program}: ${error.message}\n`);
    return error.exitCode;
  }
}

function logLevel(text = 'info'): LogLevel {
  if (levels.includes(text)) return text as LogLevel;
  throw new HearthError('InvalidArgument', 'the variable HEARTH_LOG_LEVEL must be debug, info, warn or error');
}
