import { HearthError } from '@hearth/common';
import type { AgentConfig } from '../config/index.ts';
import type { PrepareSource } from '../control/index.ts';
import type { OpenOrigin } from '../datasets/index.ts';
import { createOrigin } from '../origins/create_origin.ts';
import { withEnvironment } from '../origins/source_environment.ts';

type OriginConfig = AgentConfig['origins'];

/** Opens origins with this agent's policy; credentials come from its environment and stay in memory. */
export function originOpener(
  config: OriginConfig,
  environment: Readonly<Record<string, string | undefined>>,
): OpenOrigin {
  return (source, revision) =>
    createOrigin(
      { ...source, allowPrivate: config.allowPrivate },
      {
        environment,
        allowedAddresses: config.allowedNetworks,
        ...(revision === '' ? {} : { revision }),
        ...(config.directoryPrefixes === undefined ? {} : { allowedDirectories: config.directoryPrefixes }),
        ...(config.certificateAuthorities === undefined
          ? {}
          : { certificateAuthorities: config.certificateAuthorities }),
      },
    );
}

/**
 * A source as it is registered: with what this agent's environment says where the source leaves it open, so that
 * all agents read the same place. Private addresses are the agent's to allow, not the source's alone.
 */
export function sourcePreparer(
  config: OriginConfig,
  environment: Readonly<Record<string, string | undefined>>,
): PrepareSource {
  return (source) => {
    if (source.allowPrivate && !config.allowPrivate) {
      throw new HearthError(
        'PermissionDenied',
        'the source asks for private addresses, which this agent does not allow; set origins.allowPrivate or list the network in origins.allowedNetworks',
      );
    }
    return withEnvironment(source, environment);
  };
}
