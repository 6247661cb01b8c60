import type { AgentConfig } from '../config/index.ts';
import type { ProbeMachine } from './capabilities.ts';
import { nativeProbes } from './probe.ts';

/** Drivers of eight GPUs take seconds to answer. */
const deadlineSeconds = 30;

/** Looks at the machine of an agent by hearth-probe, with the cache directories of the agent. */
export function machineProbe(
  config: AgentConfig,
  environment: Readonly<Record<string, string | undefined>>,
): ProbeMachine {
  const directories = config.cache.directories.map((directory) => directory.path);
  return (signal) => nativeProbes({ environment, directories, deadlineSeconds, signal });
}
