import type { Statistics } from '@hearth/engine';
import type { Capability } from '../capabilities/index.ts';

/** The cache directories as a capability; ready when all take new files. */
export function directoriesCapability(directories: Statistics['directories']): Capability {
  const failing = directories.filter(({ failure }) => failure !== '');
  const reason = failing
    .map((one) => `${one.path} takes no new files: ${one.failure}${waitingFilesOf(one)}`)
    .join('; ');
  return { name: 'cache-directories', ready: failing.length === 0, reason };
}

function waitingFilesOf({ waiting, waitingFiles }: Statistics['directories'][number]): string {
  if (waitingFiles === 0) return '';
  const others = waitingFiles > waiting.length ? ` and ${waitingFiles - waiting.length} others` : '';
  return `; programs that have these files open may wait: ${waiting.join(', ')}${others}`;
}
