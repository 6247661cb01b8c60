import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HearthError, systemClock } from '@hearth/common';
import type { Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { ProxyChoice } from '@hearth/engine';
import { AddressPolicy } from './address_policy.ts';
import { openConnections } from './connections.ts';
import { DirectoryCalls } from './directory_calls.ts';
import { DirectoryOrigin } from './directory_origin.ts';
import { HttpClient } from './http_client.ts';
import { HttpOrigin } from './http_origin.ts';
import { HubOrigin } from './hub_origin.ts';
import { keyScopeOf, MirroredOrigin } from './mirrors.ts';
import type { Origin, OriginOptions } from './origin.ts';
import { S3Origin } from './s3_origin.ts';
import { SelfTestOrigin } from './self_test_origin.ts';
import { describeSource } from './source.ts';
import { type Environment, hubToken, proxiesOf, withEnvironment } from './source_environment.ts';
import { VolumeOrigin } from './volume_origin.ts';

const attemptMs = 60_000;
/** Location in the image. */
export const defaultSelfTestDirectory = '/usr/share/hearth/selftest';

/**
 * Creates the origin of a source, without any request. Mirrors affect the content keys only. Throws `InvalidArgument`
 * for an unusable source, allowed address or CA file. The caller closes the origin.
 */
export function createOrigin(source: Source, options: OriginOptions = {}): Origin {
  if (source.mirrors !== undefined && source.kind?.$case === 'hub' && source.kind.value.layout === 'hub')
    throw new HearthError(
      'InvalidArgument',
      'a hub with the layout hub has no mirrors; omit the layout or the mirrors',
    );
  const keyScope = keyScopeOf(source);
  const first = firstOrigin(source, keyScope, options);
  return keyScope === undefined ? first : new MirroredOrigin(first, keyScope);
}

function firstOrigin(source: Source, keyScope: ((key: string) => string) | undefined, options: OriginOptions): Origin {
  const environment: Environment = options.environment ?? process.env;
  const filled = withEnvironment(source, environment);
  const { kind, unusableNames, allowWeakValidators } = filled;
  if (kind === undefined)
    throw new HearthError('InvalidArgument', 'the dataset has no source; give a directory, S3, http or hub source');
  if (kind.$case === 'directory') {
    const { allowedDirectories: allowed, directoryCalls: calls = new DirectoryCalls() } = options;
    const { revision = '' } = options;
    return new DirectoryOrigin({ path: kind.value.path, unusableNames, allowed, calls, revision });
  }
  if (kind.$case === 'selfTest') return new SelfTestOrigin(options.selfTestDirectory ?? defaultSelfTestDirectory);
  if (kind.$case === 'volume') {
    const { name, path } = kind.value;
    if (options.volumes === undefined)
      throw new HearthError('Unsupported', 'volumes are read by running agents alone; ask one to add the dataset');
    return new VolumeOrigin({ volume: name, path, unusableNames, volumes: options.volumes });
  }
  const policy = new AddressPolicy(filled.allowPrivate, options.allowedAddresses ?? []);
  const connections = openConnections(
    policy,
    options.certificateAuthorities ?? '',
    new ProxyChoice(proxiesOf(environment)),
  );
  const attempts = options.attempts ?? 5;
  const description = describeSource(source);
  const { pauseMs = 250, clock = systemClock } = options;
  const client = new HttpClient(connections, policy, { attempts, pauseMs, attemptMs, clock });
  if (kind.$case === 's3') {
    return new S3Origin({
      source: kind.value,
      description,
      credentials: options.credentials,
      nodeIdentity: options.nodeIdentity ?? true,
      connections,
      policy,
      client,
      attempts,
      allowWeakValidators,
      locationSeconds: options.locationSeconds ?? 3600,
      keyScope,
    });
  }
  if (kind.$case === 'http') {
    return new HttpOrigin({
      source: kind.value,
      description,
      unusableNames,
      allowWeakValidators,
      token: options.token,
      client,
    });
  }
  const token = options.token ?? hubToken(kind.value.endpoint, environment);
  return new HubOrigin({
    source: kind.value,
    description,
    unusableNames,
    allowWeakValidators,
    token,
    revision: options.revision ?? '',
    client,
    referencesDirectory: options.hubReferencesDirectory ?? join(tmpdir(), 'hearth-hub-references'),
  });
}
