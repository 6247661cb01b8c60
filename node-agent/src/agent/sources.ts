import { HearthError } from '@hearth/common';
import type { AgentConfig } from '../config/index.ts';
import type { PrepareSource } from '../control/index.ts';
import { originCredentials } from '../credentials/index.ts';
import type { OpenOrigin } from '../datasets/index.ts';
import { createOrigin } from '../origins/create_origin.ts';
import { type Environment, withEnvironment } from '../origins/source_environment.ts';

type OriginConfig = AgentConfig['origins'];

/** Opens origins with this agent's policy, and its own identity for datasets that have no credentials. */
export function originOpener(
  { origins: config, selfTestDirectory }: Pick<AgentConfig, 'origins' | 'selfTestDirectory'>,
  environment: Environment,
): OpenOrigin {
  return (source, revision, credentials) =>
    createOrigin(
      { ...source, allowPrivate: config.allowPrivate },
      {
        environment: credentials === undefined ? environment : withoutIdentity(environment),
        allowedAddresses: config.allowedNetworks,
        selfTestDirectory,
        ...(credentials === undefined ? {} : originCredentials(source, credentials)),
        ...(revision === '' ? {} : { revision }),
        ...(config.directoryPrefixes === undefined ? {} : { allowedDirectories: config.directoryPrefixes }),
        ...(config.certificateAuthorities === undefined
          ? {}
          : { certificateAuthorities: config.certificateAuthorities }),
      },
    );
}

/** The environment without what it says of who we are and where that identity is known: HF_TOKEN and all of AWS. */
function withoutIdentity(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => name !== 'HF_TOKEN' && !name.startsWith('AWS_')),
  );
}

/**
 * A source as it is registered: with what this agent's environment says where the source leaves it open, so that
 * all agents read the same place. Private addresses are the agent's to allow, not the source's alone.
 */
export function sourcePreparer(config: OriginConfig, environment: Environment): PrepareSource {
  return (source, credentialed) => {
    if (source.allowPrivate && !config.allowPrivate) {
      throw new HearthError(
        'PermissionDenied',
        'the source asks for private addresses, which this agent does not allow; set origins.allowPrivate or list the network in origins.allowedNetworks',
      );
    }
    return withEnvironment(source, credentialed ? withoutIdentity(environment) : environment);
  };
}
