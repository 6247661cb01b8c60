import { budgetProbe } from '../cache/index.ts';
import type { AgentConfig } from '../config/index.ts';
import type { ProbeMachine } from './capabilities.ts';
import { nativeProbes } from './probe.ts';

/** Drivers of eight GPUs take seconds to answer. */
const deadlineSeconds = 30;

/** Looks at the machine of an agent by hearth-probe, with the cache directories of the agent, and at their budgets. */
export function machineProbe(
  config: AgentConfig,
  environment: Readonly<Record<string, string | undefined>>,
): ProbeMachine {
  const directories = config.cache.directories.map((directory) => directory.path);
  return async (signal) => {
    const native = await nativeProbes({ environment, directories, deadlineSeconds, signal });
    return [...native, await budgetProbe(config.cache.directories)];
  };
}
