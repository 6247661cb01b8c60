import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where everything that is built once is kept, outside the clone. */
export const cacheFolder = process.env.HEARTH_CACHE || join(homedir(), '.cache/hearth');

export { ToolUnavailable } from '@hearth/common/testing';
