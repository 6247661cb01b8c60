import type { Statistics } from '@hearth/engine';
import type { Capability } from '../capabilities/index.ts';

/** The cache directories as a capability; ready when all take new files. */
export function directoriesCapability(directories: Statistics['directories']): Capability {
  const failing = directories.filter(({ failure }) => failure !== '');
  const reason = failing.map(({ path, failure }) => `${path} takes no new files: ${failure}`).join('; ');
  return { name: 'cache-directories', ready: failing.length === 0, reason };
}
