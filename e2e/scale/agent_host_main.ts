// A process of many agents: the agent's own code from the store to its control API, on engines that only count.
import { join } from 'node:path';
import { createLogger } from '@hearth/common';
import { defaultTimings } from '../../node-agent/src/context.ts';
import { type StartedAgent, startAgent, testConfig } from '../../node-agent/src/testing/running_agent.ts';
import type { AgentHostOptions, FromAgentHost, ToAgentHost } from './agent_host.ts';
import { ManifestFolder, SimulatedEngine } from './simulated_engine.ts';

const options = JSON.parse(process.argv[2] ?? '') as AgentHostOptions;
const { folder, store, cluster, certificates, statisticsMs, share } = options;
const manifests = new ManifestFolder(join(folder, 'manifests'));
const agents = new Map<string, StartedAgent>();
const logger = createLogger({ level: 'warn', format: 'json' });

async function start(node: string, address: string, zone: string): Promise<void> {
  const config = await testConfig(folder, node, {
    cluster,
    store,
    zone,
    'cache-directories': `${join(folder, 'caches', node)}=30TiB`,
    'control-listen': `${address}:7528`,
    'control-certificate': join(certificates, 'tls.crt'),
    'control-key': join(certificates, 'tls.key'),
    'control-client-authorities': join(certificates, 'ca.crt'),
    'health-listen': `${address}:0`,
    'wire-listen': `${address}:0`,
    // As in a pod.
    'on-start-failure': 'wait',
  });
  const agent = startAgent(config, {
    engineFactory: async (given) => new SimulatedEngine(given, manifests, share),
    logger: logger.child({ node }),
    timings: { ...defaultTimings, statisticsMs },
    // The machine is probed on no agent's behalf.
    environment: { HEARTH_PROBE: '/nonexistent' },
  });
  agents.set(node, agent);
  await agent.serving;
}

async function stop(node: string): Promise<void> {
  const agent = agents.get(node);
  agents.delete(node);
  await agent?.stop();
}

process.on('message', async ({ id, call }: ToAgentHost) => {
  const answer: FromAgentHost = { id };
  try {
    if (call.kind === 'start') await start(call.node, call.address, call.zone);
    else await stop(call.node);
  } catch (thrown) {
    answer.error = thrown instanceof Error ? thrown.message : String(thrown);
  }
  process.send?.(answer);
});
process.once('disconnect', () => process.exit());
