import { readFile } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import { defaultBufferBytes } from './engine_section.ts';
import { type AgentConfig, configSchema, defaultNodeName, type ParsedConfig } from './schema.ts';
import { type Given, type Layer, layerFromEnvironment, layerFromFile, layerFromFlags } from './sources.ts';

export const defaultConfigFile = '/etc/hearth/agent.yaml';
const minSecretBytes = 16;

export interface ConfigInput {
  /** Default: `HEARTH_CONFIG`, else /etc/hearth/agent.yaml if it exists. */
  file?: string;
  environment: Record<string, string | undefined>;
  /** By flag name without dashes. */
  flags: Record<string, string | string[] | boolean | undefined>;
}

export interface LoadedConfig {
  config: AgentConfig;
  /** Sentences about settings without effect. */
  warnings: string[];
}

/**
 * Each setting comes from its flag, else its variable, the file, or its default. Throws one `InvalidArgument` that
 * lists every refused value with its key, source and allowed values. The message omits the values, because a secret may
 * have been put into the wrong setting.
 */
export async function loadConfig(input: ConfigInput): Promise<LoadedConfig> {
  const { layer: variables, warnings } = layerFromEnvironment(input.environment);
  const given: Layer = new Map([...(await readConfigFile(input)), ...variables, ...layerFromFlags(input.flags)]);
  const parsed = parse(given);
  checkTogether(parsed, given);
  const { secret, secretFile, node, engine, ...rest } = parsed;
  return {
    config: {
      ...rest,
      engine: { ...engine, bufferBytes: engine.bufferBytes ?? defaultBufferBytes(engine) },
      node: node ?? defaultNodeName(),
      secret: await readSecret(secret, secretFile, given),
    },
    warnings,
  };
}

async function readConfigFile(input: ConfigInput): Promise<Layer> {
  const named = input.file ?? input.environment.HEARTH_CONFIG;
  const path = named === undefined || named === '' ? defaultConfigFile : named;
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (thrown) {
    const code = (thrown as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' && path !== named) return new Map();
    throw new HearthError(
      code === 'ENOENT' ? 'NotFound' : 'InvalidArgument',
      `cannot read the configuration file ${path} (${(thrown as Error).message}); check --config and its permissions`,
    );
  }
  return layerFromFile(text, path);
}

function parse(given: Layer): ParsedConfig {
  const tree: Record<string, unknown> = {};
  for (const [key, { value }] of given) put(tree, key.split('.'), value);
  const result = configSchema.safeParse(tree);
  if (result.success) return result.data;
  throw new HearthError(
    'InvalidArgument',
    result.error.issues
      .map((issue) => {
        const key = issue.path.join('.');
        return `${key} (${given.get(key)?.origin ?? 'default'}) ${issue.message}`;
      })
      .join('; '),
  );
}

function put(tree: Record<string, unknown>, path: string[], value: unknown): void {
  const [name = '', ...rest] = path;
  if (rest.length === 0) {
    tree[name] = value;
    return;
  }
  tree[name] ??= {};
  put(tree[name] as Record<string, unknown>, rest, value);
}

/** Rules that span several settings. */
function checkTogether(config: ParsedConfig, given: Layer): void {
  const { listen, certificate, key, clientAuthorities } = config.control;
  const missing = Object.entries({ certificate, key, clientAuthorities })
    .filter(([, path]) => path === undefined)
    .map(([name]) => `control.${name}`);
  if (listen !== undefined && missing.length > 0) {
    throw new HearthError(
      'InvalidArgument',
      `control.listen (${originOf(given.get('control.listen'))}) needs mutual TLS; give ${missing.join(', ')} too, or omit control.listen and use the Unix socket`,
    );
  }
  const { storeAuthorities, storeCertificate, storeKey, storeServerName } = config;
  if ((storeCertificate === undefined) !== (storeKey === undefined)) {
    const present = storeCertificate === undefined ? 'storeKey' : 'storeCertificate';
    throw new HearthError(
      'InvalidArgument',
      `${present} (${originOf(given.get(present))}) is given alone; give storeCertificate and storeKey together`,
    );
  }
  const hasStoreTls = [storeAuthorities, storeCertificate, storeServerName].some((one) => one !== undefined);
  if (hasStoreTls && !config.store.startsWith('etcd:')) {
    throw new HearthError(
      'InvalidArgument',
      `storeAuthorities, storeCertificate and storeServerName are for a store in etcd, and store (${originOf(given.get('store'))}) names another`,
    );
  }
  const paths = config.cache.directories.map((directory) => directory.path);
  const twice = paths.find((path, index) => paths.indexOf(path) !== index);
  if (twice !== undefined) {
    throw new HearthError(
      'InvalidArgument',
      `cache.directories (${originOf(given.get('cache.directories'))}) names ${twice} twice; name each directory once`,
    );
  }
}

async function readSecret(secret: string | undefined, file: string | undefined, given: Layer): Promise<Uint8Array> {
  if (secret !== undefined && file !== undefined) {
    throw new HearthError(
      'InvalidArgument',
      `both the variable HEARTH_SECRET and secretFile (${originOf(given.get('secretFile'))}) are given; keep one`,
    );
  }
  if (secret !== undefined) return Buffer.from(secret);
  if (file === undefined) {
    throw new HearthError(
      'InvalidArgument',
      'the cluster secret is missing; write at least 16 random bytes to a file (openssl rand -hex 32) that only the agent can read and name it by secretFile or HEARTH_SECRET_FILE',
    );
  }
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (thrown) {
    throw new HearthError(
      'InvalidArgument',
      `secretFile ${file} (${originOf(given.get('secretFile'))}) cannot be read (${(thrown as Error).message}); check the path and its permissions`,
    );
  }
  // Editors and `echo` end files with a line feed, which is not part of the secret.
  const trimmed = Buffer.from(bytes.toString('latin1').replace(/\r?\n$/, ''), 'latin1');
  if (trimmed.length < minSecretBytes) {
    throw new HearthError(
      'InvalidArgument',
      `secretFile ${file} (${originOf(given.get('secretFile'))}) holds ${trimmed.length} bytes; it must hold at least ${minSecretBytes}`,
    );
  }
  return trimmed;
}

function originOf(given: Given | undefined): string {
  return given?.origin ?? 'default';
}
