import winston from 'winston';
import { systemClock } from './clock.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Record<string, unknown>;

/** Structured log: a constant sentence, and fields for all variable parts. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  log(level: LogLevel, message: string, fields?: LogFields): void;
  /** A logger that adds these fields to every line. */
  child(fields: LogFields): Logger;
}

export interface LoggerOptions {
  level: LogLevel;
  /** auto: pretty when the stream is a terminal, else JSON lines. */
  format: 'auto' | 'json' | 'pretty';
  /** Fields of every line. */
  fields?: LogFields;
  /** Default standard error; standard output belongs to command results. */
  stream?: NodeJS.WritableStream & { isTTY?: boolean };
}

const secretName =
  /secret|token|password|passwd|authorization|cookie|credential|signature|private_?key|access_?key|headers/i;
const hidden = '[hidden]';
const deepest = 6;

/** Logs to a stream. Hides fields with secret names, and user, password and query of URLs. */
export function createLogger(options: LoggerOptions): Logger {
  const stream = options.stream ?? process.stderr;
  const pretty = options.format === 'pretty' || (options.format === 'auto' && stream.isTTY === true);
  const logger = winston.createLogger({
    level: options.level,
    format: winston.format.printf((info) => {
      const { level, message, fields } = info as unknown as { level: string; message: string; fields: LogFields };
      const shown = redact(fields, 0) as LogFields;
      const text = hideInUrls(message);
      return pretty ? prettyLine(level, text, shown) : jsonLine(level, text, shown);
    }),
    transports: [new winston.transports.Stream({ stream })],
  });
  return wrap(logger, options.fields ?? {});
}

/** Discards everything; for tests. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  log() {},
  child: () => silentLogger,
};

function wrap(logger: winston.Logger, own: LogFields): Logger {
  const log = (level: LogLevel, message: string, fields: LogFields = {}) =>
    void logger.log({ level, message, fields: { ...own, ...fields } });
  return {
    debug: (message, fields) => log('debug', message, fields),
    info: (message, fields) => log('info', message, fields),
    warn: (message, fields) => log('warn', message, fields),
    error: (message, fields) => log('error', message, fields),
    log,
    child: (fields) => wrap(logger, { ...own, ...fields }),
  };
}

function jsonLine(level: string, message: string, fields: LogFields): string {
  return JSON.stringify({ time: systemClock.date().toISOString(), level, message, ...fields });
}

function prettyLine(level: string, message: string, fields: LogFields): string {
  const shown = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return [systemClock.date().toISOString().slice(11, 23), level.toUpperCase().padEnd(5), message, ...shown].join(' ');
}

/** A JSON-compatible copy: bigints as text, errors as code and message, secrets hidden, depth bounded. */
function redact(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return hideInUrls(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= deepest) return '[too deep]';
  if (value instanceof Error) {
    const code = (value as { code?: unknown }).code;
    return { ...(typeof code === 'string' ? { code } : {}), message: hideInUrls(value.message) };
  }
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return value.map((one) => redact(one, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, secretName.test(name) ? hidden : redact(inner, depth + 1)]),
  );
}

const urlInText = /\b([a-z][a-z0-9+.-]*:\/\/)(?:[^\s/?#@]*@)?([^\s?#"'<>]*)(?:\?[^\s#"'<>]*)?/gi;

/** Removes user, password and query, which may hold credentials, from every URL in a text. */
export function hideInUrls(text: string): string {
  return text.replace(urlInText, (whole: string, scheme: string, rest: string) =>
    whole.includes('?') ? `${scheme}${rest}?${hidden}` : `${scheme}${rest}`,
  );
}
