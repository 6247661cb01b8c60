import { hostname } from 'node:os';
import { controlPort, healthPort, wirePort } from '@hearth/common';
import { z } from 'zod';
import { parseCacheDirectory } from './cache_directory.ts';
import { endpointWithPort, parseNetwork } from './endpoint.ts';
import { engineSection } from './engine_section.ts';
import { limitsSection } from './limits_section.ts';
import { parseDuration } from './quantity.ts';
import {
  countBetween,
  listOf,
  oneOf,
  optionalSetting,
  parseLabels,
  parseName,
  parseSwitch,
  setting,
} from './setting.ts';

const nameAllowed = 'a name of letters, digits, ".", "_" and "-" that begins and ends with a letter or digit';
const addressAllowed = 'an IP address with an optional port, for example 10.0.0.5:7527 or [fd00::5]:7527';
const pathAllowed = 'an absolute path';

const parseBeginning = (value: unknown) => (typeof value === 'string' && /^\S+$/.test(value) ? value : undefined);
const parsePath = (value: unknown) => (typeof value === 'string' && value.startsWith('/') ? value : undefined);

/** All settings of an agent. Each leaf is a key of the file, a variable and a flag of the same name. */
export const configSchema = z.strictObject({
  cluster: setting(
    { description: 'Name of the cluster; peers of another cluster are refused.', allowed: nameAllowed, form: 'text' },
    parseName,
    'hearth',
  ),
  node: optionalSetting(
    {
      description: "This agent's name, unique in the cluster. Absent: the host name.",
      allowed: nameAllowed,
      form: 'text',
    },
    parseName,
  ),
  zone: setting(
    { description: 'Zone of the node; peers of the same zone are preferred.', allowed: 'a name', form: 'text' },
    (value) => (typeof value === 'string' ? value : undefined),
    '',
  ),
  rack: setting(
    { description: 'Rack of the node; peers of the same rack are preferred.', allowed: 'a name', form: 'text' },
    (value) => (typeof value === 'string' ? value : undefined),
    '',
  ),
  labels: setting(
    { description: 'Labels of the node, shown in status.', allowed: 'pairs key=value', form: 'map' },
    parseLabels,
    '',
  ),
  store: setting(
    {
      description: 'Store in which agents find each other: sqlite:PATH for one machine, etcd://HOST:PORT,... for many.',
      allowed: 'sqlite:/path/to/file or etcd://host:port,host:port',
      form: 'text',
    },
    (value) => (typeof value === 'string' && /^(sqlite:.+|etcd:\/\/.+)$/.test(value) ? value : undefined),
    'sqlite:/var/lib/hearth/store.sqlite',
  ),
  storeAuthorities: optionalSetting(
    {
      description: "PEM file with the authorities of etcd's certificates. Absent: as in the store's address.",
      allowed: pathAllowed,
      form: 'text',
    },
    parsePath,
  ),
  storeCertificate: optionalSetting(
    { description: 'PEM file with the client certificate for etcd.', allowed: pathAllowed, form: 'text' },
    parsePath,
  ),
  storeKey: optionalSetting(
    { description: 'PEM file with the private key of storeCertificate.', allowed: pathAllowed, form: 'text' },
    parsePath,
  ),
  storeServerName: optionalSetting(
    {
      description: "Name in etcd's certificates, when it differs from the store's address.",
      allowed: 'a DNS name',
      form: 'text',
    },
    (value) => (typeof value === 'string' && /^[A-Za-z0-9.-]{1,253}$/.test(value) ? value : undefined),
  ),
  storeMaintenance: setting(
    {
      description:
        'Delete history of the store when it grows, and free it when it is full: for an etcd that nothing else uses.',
      allowed: 'true or false',
      form: 'switch',
    },
    parseSwitch,
    'false',
  ),
  secretFile: optionalSetting(
    { description: 'File with the cluster secret, at least 16 bytes.', allowed: pathAllowed, form: 'text' },
    parsePath,
  ),
  secret: optionalSetting(
    {
      description: 'The cluster secret itself, at least 16 bytes. Only as a variable; prefer secretFile.',
      allowed: 'text of at least 16 bytes',
      form: 'text',
      secret: true,
    },
    (value) => (typeof value === 'string' && Buffer.byteLength(value) >= 16 ? value : undefined),
  ),
  wire: z
    .strictObject({
      listen: setting(
        {
          description: 'Listening addresses for other agents, one for each network interface.',
          allowed: addressAllowed,
          form: 'list',
        },
        listOf(endpointWithPort(wirePort)),
        `0.0.0.0:${wirePort}`,
      ),
      advertise: setting(
        {
          description: 'Addresses published to other agents. Absent: those of wire.listen.',
          allowed: addressAllowed,
          form: 'list',
        },
        listOf(endpointWithPort(wirePort)),
        '',
      ),
      networks: setting(
        {
          description:
            "Networks: the agent listens on this machine's addresses in them, with the first port of wire.listen, instead of on wire.listen.",
          allowed: 'networks or addresses, for example 10.1.0.0/16 or fd00:1::/64',
          form: 'list',
        },
        listOf(parseNetwork),
        '',
      ),
    })
    .prefault({}),
  cache: z
    .strictObject({
      directories: setting(
        {
          description:
            'Cache directories, one for each disk: PATH, PATH=BUDGET, PATH=BUDGET:FREEFLOOR, or in the file a mapping of path, budget (70%) and freeFloor (20%).',
          allowed: 'absolute paths with budgets such as /var/cache/hearth=200GiB or /var/cache/hearth=70%',
          form: 'list',
        },
        (value) => {
          const parsed = listOf(parseCacheDirectory)(value);
          return parsed !== undefined && parsed.length > 0 ? parsed : undefined;
        },
        '/var/cache/hearth',
      ),
    })
    .prefault({}),
  control: z
    .strictObject({
      socket: setting(
        {
          description: 'Unix socket of the control API.',
          allowed: `${pathAllowed} of at most 107 bytes`,
          form: 'text',
        },
        (value) =>
          parsePath(value) !== undefined && Buffer.byteLength(String(value)) <= 107 ? String(value) : undefined,
        '/run/hearth/agent.sock',
      ),
      listen: optionalSetting(
        {
          description: 'TCP address of the control API; requires the three TLS files. Absent: none.',
          allowed: addressAllowed,
          form: 'text',
        },
        endpointWithPort(controlPort),
      ),
      certificate: optionalSetting(
        { description: "PEM file with the control API's certificate chain.", allowed: pathAllowed, form: 'text' },
        parsePath,
      ),
      key: optionalSetting(
        { description: 'PEM file with the private key of the certificate.', allowed: pathAllowed, form: 'text' },
        parsePath,
      ),
      clientAuthorities: optionalSetting(
        {
          description:
            'PEM file with the authorities of client certificates, which must be for agent.CLUSTER.hearth, operator.CLUSTER.hearth or client.CLUSTER.hearth.',
          allowed: pathAllowed,
          form: 'text',
        },
        parsePath,
      ),
    })
    .prefault({}),
  health: z
    .strictObject({
      listen: setting(
        { description: 'Address of /healthz, /readyz and /metrics.', allowed: addressAllowed, form: 'text' },
        endpointWithPort(healthPort),
        `127.0.0.1:${healthPort}`,
      ),
    })
    .prefault({}),
  holder: z
    .strictObject({
      socket: setting(
        {
          description: 'Unix socket of hearth-holder, which owns the mounts and keeps the memory for chunks.',
          allowed: pathAllowed,
          form: 'text',
        },
        parsePath,
        '/run/hearth/holder.sock',
      ),
    })
    .prefault({}),
  clients: z
    .strictObject({
      socket: optionalSetting(
        {
          description:
            'Unix socket from which programs with libgd2fs on this node get complete files, in a folder of its own that the agent creates and pods may mount. Absent: they read over the network.',
          allowed: pathAllowed,
          form: 'text',
        },
        parsePath,
      ),
      adviseNamespaces: setting(
        {
          description:
            'Namespaces whose pods may advise which bytes their own node needs, by the right `advise` of their tokens.',
          allowed: 'names of namespaces',
          form: 'list',
        },
        listOf(parseBeginning),
        '',
      ),
      adviseClusterNamespaces: setting(
        {
          description: 'The same for all nodes, by the right `advise-cluster`.',
          allowed: 'names of namespaces',
          form: 'list',
        },
        listOf(parseBeginning),
        '',
      ),
    })
    .prefault({}),
  volumes: z
    .strictObject({
      directory: optionalSetting(
        {
          description:
            'Folder for mounts that are bound into pods and for their records (mounts/, published/). Absent: the agent publishes no volumes.',
          allowed: pathAllowed,
          form: 'text',
        },
        parsePath,
      ),
      tails: optionalSetting(
        {
          description:
            'Folder on a tmpfs that outlives the agent, where the last changes of writable volumes are safe before the disk has them: 256 KiB for each volume that the agent leads. It is made in one that exists. Absent: `volumes` beside holder.socket.',
          allowed: pathAllowed,
          form: 'text',
        },
        parsePath,
      ),
    })
    .prefault({}),
  kubelet: z
    .strictObject({
      directory: optionalSetting(
        {
          description:
            "Any folder on the kubelet's file system, of which cache directories must leave 20 % free. Absent: no kubelet.",
          allowed: pathAllowed,
          form: 'text',
        },
        parsePath,
      ),
    })
    .prefault({}),
  selfTestDirectory: setting(
    {
      description: 'Folder of the built-in files, which serve as a dataset to try an installation.',
      allowed: pathAllowed,
      form: 'text',
    },
    parsePath,
    '/usr/share/hearth/selftest',
  ),
  engine: engineSection,
  limits: limitsSection,
  origins: z
    .strictObject({
      allowPrivate: setting(
        {
          description: 'Accept origins in loopback, link-local and private address ranges.',
          allowed: 'true or false',
          form: 'switch',
        },
        parseSwitch,
        'false',
      ),
      allowedNetworks: setting(
        {
          description: 'Permitted networks among loopback, link-local and private ones.',
          allowed: 'networks or addresses, for example 10.0.0.0/8 or 192.168.1.7',
          form: 'list',
        },
        listOf(parseNetwork),
        '',
      ),
      directoryPrefixes: optionalSetting(
        {
          description: 'Directory origins must lie below one of these paths. Absent: anywhere; empty: nowhere.',
          allowed: 'absolute paths',
          form: 'list',
        },
        listOf(parsePath),
      ),
      nodeIdentity: optionalSetting(
        {
          description:
            "Prefixes of names of datasets that may read with this machine's credentials when they have none of their own: the " +
            'AWS variables, profile or instance role, and HF_TOKEN. Absent: all datasets; empty: none, they read ' +
            'anonymously.',
          allowed: 'beginnings of names',
          form: 'list',
        },
        listOf(parseBeginning),
      ),
      maxEntries: setting(
        {
          description:
            'Maximum number of files and folders in one dataset. Listing takes about 360 bytes of memory for each, plus the bytes of their paths, of which 256 on average are permitted.',
          allowed: 'a number from 1 to 100000000',
          form: 'text',
        },
        countBetween(1, 100_000_000),
        '2000000',
      ),
      certificateAuthorities: optionalSetting(
        {
          description: "PEM file with the authorities for https origins. Absent: the system's.",
          allowed: pathAllowed,
          form: 'text',
        },
        parsePath,
      ),
    })
    .prefault({}),
  log: z
    .strictObject({
      level: setting(
        {
          description: 'Minimum level of log messages.',
          allowed: 'debug, info, warn or error',
          form: 'text',
        },
        oneOf('debug', 'info', 'warn', 'error'),
        'info',
      ),
      format: setting(
        { description: 'json, pretty, or auto: pretty on a terminal.', allowed: 'auto, json or pretty', form: 'text' },
        oneOf('auto', 'json', 'pretty'),
        'auto',
      ),
    })
    .prefault({}),
  onStartFailure: setting(
    {
      description:
        'Behaviour when the cache directories or the store are unusable at the start. exit: end with the reason; wait: report the reason at /readyz and to other agents, and retry.',
      allowed: 'exit or wait',
      form: 'text',
    },
    oneOf('exit', 'wait'),
    'exit',
  ),
  shutdownDeadline: setting(
    {
      description: 'Time limit of a clean shutdown after SIGTERM.',
      allowed: 'a duration of at least 1s, for example 10s',
      form: 'text',
    },
    (value) => {
      const time = parseDuration(value);
      return time !== undefined && time >= 1000 ? time : undefined;
    },
    '10s',
  ),
});

type Parsed = z.output<typeof configSchema>;

/** A complete configuration: names resolved, secret read. */
export type AgentConfig = Omit<Parsed, 'engine' | 'node' | 'secret' | 'secretFile'> & {
  engine: Parsed['engine'] & { bufferBytes: bigint };
  node: string;
  /** Never printed: `describeConfig` omits it. */
  secret: Uint8Array;
};

/** The host's name as a node name: the part before the first character that names exclude. */
export function defaultNodeName(): string {
  return hostname().replace(/[^A-Za-z0-9._-]/g, '-');
}

export type ParsedConfig = Parsed;
