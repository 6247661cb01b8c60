import type { Statistics } from '@hearth/engine';
import type { Capability } from '../capabilities/index.ts';
import { formatSize } from '../config/index.ts';

/** Whole files in memory as a capability; ready when the agent can bring files there, none without a budget. Changes rarely. */
export function memoryFilesCapability(files: Statistics['memoryFiles']): Capability[] {
  const name = 'memory files';
  if (files.budgetBytes === 0n) return [];
  if (files.off !== '') return [{ name, ready: false, reason: files.off }];
  const pages =
    files.noHugePages === '' ? 'huge pages where a file is large enough' : `no huge pages: ${files.noHugePages}`;
  const failure = files.failure === '' ? '' : `; the last file stayed on the disk: ${files.failure}`;
  return [{ name, ready: true, reason: `${formatSize(files.budgetBytes)}, ${pages}${failure}` }];
}
