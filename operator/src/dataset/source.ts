import { HearthError } from '@hearth/common';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { DatasetMirror, DatasetSource, DatasetSpec } from '@hearth/common/resources';

/**
 * The source of a spec as agents take it. Private addresses are never asked for here: which networks origins may
 * be in stands in the StorageCluster, and the agents have it in their configuration.
 */
export function sourceOf(
  spec: Pick<DatasetSpec, 'source' | 'mirrors' | 'secretRef' | 'unusableNames' | 'weakValidators'>,
): Source {
  const { mirrors = [] } = spec;
  const credentialed = mirrors.flatMap(({ secretRef }, index) => (secretRef === undefined ? [] : [index]));
  const sourceHasNone = spec.secretRef === undefined && credentialed.length > 0;
  return {
    ...(mirrors.length === 0 ? {} : { mirrors: { sources: mirrors.map(mirrorOf), credentialed, sourceHasNone } }),
    kind: kindOf(spec.source),
    allowPrivate: false,
    unusableNames: spec.unusableNames,
    allowWeakValidators: spec.weakValidators === 'Allow',
  };
}

/** As agents take it. */
export function mirrorOf(mirror: DatasetMirror): Source {
  return { kind: kindOf(mirror), allowPrivate: false, unusableNames: '', allowWeakValidators: false };
}

function kindOf({ s3, http, hub, directory, selfTest }: DatasetSource & DatasetMirror): NonNullable<Source['kind']> {
  if (s3 !== undefined) {
    const { bucket, prefix, endpoint = '', region = '', pathStyle } = s3;
    return { $case: 's3', value: { bucket, prefix, endpoint, region, pathStyle } };
  }
  if (http !== undefined) return { $case: 'http', value: { urls: [...http.urls], sha256: { ...http.sha256 } } };
  if (hub !== undefined) {
    const { endpoint, repoType, repo, revision } = hub;
    // The default is left out, so that records of earlier releases stay equal.
    const layout = hub.layout === 'hub' ? 'hub' : '';
    return { $case: 'hub', value: { endpoint, repoType, repo, revision, layout } };
  }
  if (directory !== undefined) return { $case: 'directory', value: { path: directory.path } };
  if (selfTest !== undefined) return { $case: 'selfTest', value: {} };
  throw new HearthError('InvalidArgument', 'the source has no kind that this operator knows; update the operator');
}

/**
 * Why this source may not be read in a cluster with these prefixes; undefined when it may. Symlinks that lead out
 * of a prefix are refused by the agents, which open the path.
 */
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

/** Compared by parts: /data does not allow /database. */
function isBelow(path: readonly string[], prefix: readonly string[]): boolean {
  return prefix.length <= path.length && prefix.every((part, index) => part === path[index]);
}
