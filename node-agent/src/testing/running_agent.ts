import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { silentLogger } from '@hearth/common';
import { ControlClient } from '@hearth/common/generated/hearth/v1/control.ts';
import { type AgentConfig, loadConfig } from '../config/index.ts';
import { type RunningAgent, type RunOptions, runAgent } from '../daemon/run_agent.ts';
import { testTimings } from './cluster.ts';

export type Flags = Record<string, string | string[]>;

/**
 * Configuration of an agent that keeps everything below `folder`, which it may share with others; `flags` take
 * precedence.
 */
export async function testConfig(folder: string, node: string, flags: Flags = {}): Promise<AgentConfig> {
  const { config } = await loadConfig({
    environment: { HEARTH_SECRET: 'sixteen bytes or more' },
    flags: {
      node,
      store: `sqlite:${join(folder, 'state', 'store.sqlite')}`,
      'cache-directories': `${join(folder, node)}=1GiB`,
      'control-socket': join(folder, `${node}.sock`),
      'health-listen': '127.0.0.1:0',
      'wire-listen': '127.0.0.1:0',
      ...flags,
    },
  });
  return config;
}

/** An agent started by `runAgent`. */
export interface StartedAgent {
  /** Resolves when the agent serves; rejects when it ends before. */
  serving: Promise<RunningAgent>;
  /** Resolves when the agent has ended. */
  stop: () => Promise<void>;
}

/** Silent and with the timings of tests, unless the options say otherwise. */
export function startAgent(config: AgentConfig, options: Omit<RunOptions, 'signal' | 'onReady'>): StartedAgent {
  const controller = new AbortController();
  const { promise: serving, resolve: onReady, reject } = Promise.withResolvers<RunningAgent>();
  const given = { logger: silentLogger, timings: testTimings, ...options };
  const ended = runAgent(config, { ...given, signal: controller.signal, onReady });
  ended.catch(reject);
  const stop = async () => {
    controller.abort();
    await ended;
  };
  return { serving, stop };
}

/** A client on the socket of `testConfig`. */
export function socketClient(folder: string, node: string): ControlClient {
  const address = `unix://${join(folder, `${node}.sock`)}`;
  return new ControlClient(address, credentials.createInsecure(), { 'grpc.default_authority': 'localhost' });
}
