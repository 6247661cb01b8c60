import type { AgentConfig } from '@hearth/node-agent/config';

/**
 * Runs an agent with the native engine until the signal aborts. Loads the agent lazily, because only `hearth agent`
 * needs it.
 */
export async function runAgentProcess(config: AgentConfig, signal: AbortSignal): Promise<void> {
  const [{ runAgent }, { openEngine }] = await Promise.all([import('@hearth/node-agent'), import('@hearth/engine')]);
  await runAgent(config, { engineFactory: openEngine, signal });
}
