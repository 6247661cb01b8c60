import { stringify } from 'yaml';
import { formatCacheDirectory } from './cache_directory.ts';
import { formatEndpoint } from './endpoint.ts';
import { describeLimits } from './limits_section.ts';
import { formatAmount, formatDuration, formatSize } from './quantity.ts';
import type { AgentConfig } from './schema.ts';
import { settings } from './settings.ts';

/** The configuration in effect as YAML, usable as a configuration file; without the secret. */
export function describeConfig(config: AgentConfig): string {
  const { secret: _secret, ...shown } = config;
  return stringify({
    ...shown,
    wire: {
      ...shown.wire,
      listen: shown.wire.listen.map(formatEndpoint),
      advertise: shown.wire.advertise.map(formatEndpoint),
    },
    cache: { directories: shown.cache.directories.map(formatCacheDirectory) },
    control: {
      ...shown.control,
      ...(shown.control.listen === undefined ? {} : { listen: formatEndpoint(shown.control.listen) }),
    },
    health: { listen: formatEndpoint(shown.health.listen) },
    engine: {
      ...shown.engine,
      bufferBytes: formatSize(shown.engine.bufferBytes),
      memoryBytes: formatAmount(shown.engine.memoryBytes),
      scrubRate: formatSize(shown.engine.scrubRate),
    },
    limits: describeLimits(shown.limits),
    shutdownDeadline: formatDuration(shown.shutdownDeadline),
  });
}

/** docs/configuration.md, generated from the schema. */
export function configurationDocument(): string {
  const rows = settings.map((one) => {
    const flag = one.flag === undefined ? 'none' : `\`--${one.flag}\``;
    const fallback = one.default === undefined ? '' : `\`${one.default}\``;
    return `| \`${one.key}\` | \`${one.variable}\` | ${flag} | ${fallback} | ${one.description} Must be ${one.allowed}. |`;
  });
  return [
    '# Configuration of the agent',
    '',
    '<!-- Written from node-agent/src/config/schema.ts by node-agent/src/config/write_document.ts. -->',
    '',
    'Each setting is a key of the YAML file (`hearth agent --config FILE`, else `HEARTH_CONFIG`, else',
    '`/etc/hearth/agent.yaml` when it exists), a variable and a flag. Flags come before variables, variables before',
    'the file, the file before defaults, each setting by itself. Lists are separated by commas in variables; flags',
    'of lists may be repeated. `hearth agent --print-config` prints the configuration in effect, without the secret.',
    '',
    'Sizes are written `200GiB`, `1.5TB` or `4096`; shares of a disk `80%`; durations `10s`, `15m`.',
    '',
    'On Kubernetes the operator writes the file, from the [StorageCluster](reference/api.md): sizes, `engine.scrubRate`, `limits`',
    'and `origins.maxEntries` among them, are set there, and agents are replaced when they change.',
    '',
    'Origins are asked through the proxies that the variables `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name',
    '([rules](kubernetes.md#proxies)).',
    '',
    '| key | variable | flag | default | meaning |',
    '|---|---|---|---|---|',
    ...rows,
    '',
    '## Example',
    '',
    '```yaml',
    'node: node-7',
    'store: etcd://10.0.0.1:2379,10.0.0.2:2379',
    'secretFile: /etc/hearth/secret',
    'wire:',
    '  listen: [10.0.0.7:7527, 10.1.0.7:7527]',
    'cache:',
    '  directories:',
    '    - { path: /mnt/nvme0/hearth, budget: 80%, freeFloor: 10% }',
    '    - { path: /mnt/nvme1/hearth, budget: 1.5TiB }',
    'origins:',
    '  directoryPrefixes: [/mnt/models]',
    '```',
    '',
  ].join('\n');
}
