import { createHash } from 'node:crypto';
import { HearthError } from '@hearth/common';
import { Credentials, Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { type DatasetMirror, type DatasetSource, type DatasetSpec, parseDuration } from '@hearth/common/resources';

export interface Registration {
  cluster: string;
  name: string;
  source: Source;
  include: readonly string[];
  exclude: readonly string[];
  /** Undefined for the nodes' own identity, or none. A secret: never logged or written to the API server. */
  credentials: Credentials | undefined;
}

export const mirrorsFeature = 'mirrors';
export const hubLayoutFeature = 'hub-layout';
export const volumeFeature = 'volume-datasets';

export const noCredentials: Credentials = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };

/** Equal for equal files of the same cluster, credentials aside. */
export function choiceOf({ cluster, name, source, include, exclude }: Registration): string {
  return JSON.stringify([cluster, name, Source.toJSON(source), include, exclude]);
}

export function withoutMirrors({ mirrors: _, ...ofSource }: Credentials): Credentials {
  return ofSource;
}

export function credentialsDigest(credentials: Credentials | undefined): string {
  const text = JSON.stringify(Credentials.toJSON(credentials ?? noCredentials));
  return createHash('sha256').update(text).digest('hex');
}

/**
 * Private networks are allowed by the StorageCluster alone, through the agents' configuration. `volume`: the one behind
 * the claim that the source names.
 */
export function sourceOf(
  spec: Pick<DatasetSpec, 'source' | 'mirrors' | 'secretRef' | 'unusableNames' | 'weakValidators' | 'reads'>,
  volume?: string,
): Source {
  const { mirrors = [] } = spec;
  const credentialed = mirrors.flatMap(({ secretRef }, index) => (secretRef === undefined ? [] : [index]));
  const sourceHasNone = spec.secretRef === undefined && credentialed.length > 0;
  return {
    ...(mirrors.length === 0 ? {} : { mirrors: { sources: mirrors.map(mirrorOf), credentialed, sourceHasNone } }),
    kind: kindOf(spec.source, volume),
    allowPrivate: false,
    unusableNames: spec.unusableNames,
    allowWeakValidators: spec.weakValidators === 'Allow',
    ...(spec.reads === undefined ? {} : { originWaitSeconds: (parseDuration(spec.reads.originWait) ?? 0) / 1000 }),
  };
}

export function mirrorOf(mirror: DatasetMirror): Source {
  return { kind: kindOf(mirror), allowPrivate: false, unusableNames: '', allowWeakValidators: false };
}

function kindOf(
  { s3, http, hub, directory, volume, selfTest }: DatasetSource & DatasetMirror,
  volumeName?: string,
): NonNullable<Source['kind']> {
  if (s3 !== undefined) {
    const { bucket, prefix, endpoint = '', region = '', pathStyle } = s3;
    return { $case: 's3', value: { bucket, prefix, endpoint, region, pathStyle } };
  }
  if (http !== undefined) return { $case: 'http', value: { urls: [...http.urls], sha256: { ...http.sha256 } } };
  if (hub !== undefined) {
    const { endpoint, repoType, repo, revision } = hub;
    // Records of earlier releases do not have the default.
    const layout = hub.layout === 'hub' ? 'hub' : '';
    return { $case: 'hub', value: { endpoint, repoType, repo, revision, layout } };
  }
  if (directory !== undefined) return { $case: 'directory', value: { path: directory.path } };
  if (volume !== undefined && volumeName !== undefined)
    return { $case: 'volume', value: { name: volumeName, path: volume.path } };
  if (selfTest !== undefined) return { $case: 'selfTest', value: {} };
  throw new HearthError('InvalidArgument', 'the source has no kind that this operator knows; update the operator');
}

/** Undefined when a cluster with these prefixes may read the source. Agents refuse symlinks that leave a prefix. */
export function refuseDirectory(
  source: DatasetSource | DatasetMirror,
  prefixes: readonly string[],
): string | undefined {
  if (source.directory === undefined) return undefined;
  const { path } = source.directory;
  const parts = path.split('/').slice(1);
  if (!path.startsWith('/') || parts.some((part) => part === '' || part === '.' || part === '..')) {
    return `the directory ${path} is not an absolute path without empty parts, "." and ".."`;
  }
  if (prefixes.some((prefix) => isBelow(parts, prefix.split('/').slice(1)))) return undefined;
  const allowed = prefixes.length === 0 ? 'no directories at all' : `directories below ${prefixes.join(', ')}`;
  return (
    `the StorageCluster does not let agents read the directory ${path}: it allows ${allowed}; ` +
    'ask its administrator to add a prefix to spec.origins.directoryPrefixes'
  );
}

/** Compares parts: /data does not allow /database. */
function isBelow(path: readonly string[], prefix: readonly string[]): boolean {
  return prefix.length <= path.length && prefix.every((part, index) => part === path[index]);
}
