import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where everything that is built once is kept, outside the clone. */
export const cacheFolder = process.env.HEARTH_CACHE || join(homedir(), '.cache/hearth');

/** A tool cannot be had on this machine; the message says why and what to do. */
export class ToolUnavailable extends Error {}
