import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { HearthError, type LogLevel } from '@hearth/common';
import { z } from 'zod';
import { driverName } from './names.ts';

export interface Configuration {
  node: string;
  socket: string;
  services: 'node' | 'all';
  /** The cluster of the Controller service; undefined for the only one on this node. */
  cluster: string | undefined;
  stateDirectory: string;
  kubeletDirectory: string;
  registrationDirectory: string | undefined;
  health: { host: string; port: number } | undefined;
  nodeGroupsFile: string | undefined;
  logLevel: LogLevel;
  logFormat: 'auto' | 'json' | 'pretty';
}

interface Option {
  variable: string;
  fallback?: string;
  value: string;
  description: string;
}

const options = {
  node: { variable: 'HEARTH_NODE', value: 'NAME', description: 'name of this node in Kubernetes; required' },
  endpoint: {
    variable: 'HEARTH_CSI_ENDPOINT',
    value: 'unix:///PATH',
    description: `socket of the driver, as the kubelet sees it; absent: plugins/${driverName}/csi.sock in its folder`,
  },
  services: {
    variable: 'HEARTH_CSI_SERVICES',
    fallback: 'node',
    value: 'node|all',
    description: 'the Node service alone, or the Controller service too, for provisioners other than our operator',
  },
  cluster: {
    variable: 'HEARTH_CLUSTER',
    value: 'NAME',
    description: 'StorageCluster of the Controller service; absent: the only one on this node',
  },
  'state-directory': {
    variable: 'HEARTH_STATE_DIRECTORY',
    fallback: '/var/lib/hearth',
    value: 'PATH',
    description: 'folder with a folder for each StorageCluster: sockets, mounts and records of what is published',
  },
  'kubelet-directory': {
    variable: 'HEARTH_KUBELET_DIRECTORY',
    fallback: '/var/lib/kubelet',
    value: 'PATH',
    description: "the kubelet's folder: targets elsewhere are refused",
  },
  'registration-directory': {
    variable: 'HEARTH_REGISTRATION_DIRECTORY',
    value: 'PATH|none',
    description: 'where the kubelet looks for drivers; none: do not register; absent: plugins_registry in its folder',
  },
  'health-listen': {
    variable: 'HEARTH_HEALTH_LISTEN',
    value: 'HOST:PORT',
    description: 'HTTP /healthz and /readyz; absent: none',
  },
  'node-groups-file': {
    variable: 'HEARTH_NODE_GROUPS_FILE',
    value: 'PATH',
    description: 'file in which the operator writes which nodes have agents, for messages; absent: none',
  },
  'log-level': {
    variable: 'HEARTH_LOG_LEVEL',
    fallback: 'info',
    value: 'LEVEL',
    description: 'debug, info, warn or error',
  },
  'log-format': {
    variable: 'HEARTH_LOG_FORMAT',
    fallback: 'auto',
    value: 'FORMAT',
    description: 'auto, json or pretty',
  },
} satisfies Record<string, Option>;

type Name = keyof typeof options;

const path = z.string().regex(/^\//, 'must be an absolute path');
const schema = z.object({
  node: z.string().regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'must be the name of a node in Kubernetes'),
  endpoint: z.string().regex(/^$|^unix:\/\/\/./, 'must be unix:///PATH'),
  services: z.enum(['node', 'all'], 'must be node or all'),
  cluster: z.string(),
  'state-directory': path,
  'kubelet-directory': path,
  'registration-directory': z.string().regex(/^$|^none$|^\//, 'must be an absolute path or none'),
  'health-listen': z.string().regex(/^$|^(\[[0-9a-fA-F:]+\]|[^:[\]]*):\d{1,5}$/, 'must be HOST:PORT, :PORT or empty'),
  'node-groups-file': z.string().regex(/^$|^\//, 'must be an absolute path'),
  'log-level': z.enum(['debug', 'info', 'warn', 'error'], 'must be debug, info, warn or error'),
  'log-format': z.enum(['auto', 'json', 'pretty'], 'must be auto, json or pretty'),
});

/** Flags override variables, which override defaults. `InvalidArgument` names the flag and its variable. */
export function readConfiguration(args: string[], environment: NodeJS.ProcessEnv): Configuration {
  const given = parsedFlags(args);
  const raw = Object.fromEntries(
    Object.entries<Option>(options).map(([name, { variable, fallback }]) => [
      name,
      given[name as Name] ?? environment[variable] ?? fallback ?? '',
    ]),
  );
  const checked = schema.safeParse(raw);
  if (!checked.success) {
    const [issue] = checked.error.issues;
    const name = String(issue?.path[0]) as Name;
    throw new HearthError('InvalidArgument', `--${name} (${options[name].variable}) ${issue?.message}`);
  }
  const { data } = checked;
  const kubeletDirectory = resolve(data['kubelet-directory']);
  const registration = data['registration-directory'];
  return {
    node: data.node,
    socket: data.endpoint.slice('unix://'.length) || join(kubeletDirectory, 'plugins', driverName, 'csi.sock'),
    services: data.services,
    cluster: data.cluster === '' ? undefined : data.cluster,
    stateDirectory: resolve(data['state-directory']),
    kubeletDirectory,
    registrationDirectory:
      registration === 'none' ? undefined : registration || join(kubeletDirectory, 'plugins_registry'),
    nodeGroupsFile: data['node-groups-file'] || undefined,
    health: listenAddress(data['health-listen']),
    logLevel: data['log-level'],
    logFormat: data['log-format'],
  };
}

export function usage(): string {
  const lines = Object.entries<Option>(options).map(([name, { variable, fallback, value, description }]) => {
    const preset = fallback === undefined ? '' : ` [${fallback}]`;
    return `  --${name} ${value}\n      ${description} (${variable})${preset}`;
  });
  return `Usage: hearth-csi-node [options]\n\nThe CSI driver ${driverName} on one node.\n\n${lines.join('\n')}\n`;
}

function parsedFlags(args: string[]): Partial<Record<Name, string>> {
  const flags = Object.fromEntries(Object.keys(options).map((name) => [name, { type: 'string' as const }]));
  try {
    return parseArgs({ args, options: flags }).values as Partial<Record<Name, string>>;
  } catch (thrown) {
    throw new HearthError('InvalidArgument', `${(thrown as Error).message.split('. ')[0]}; see --help`);
  }
}

function listenAddress(text: string): { host: string; port: number } | undefined {
  if (text === '') return undefined;
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1)) };
}
