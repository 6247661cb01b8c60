import { type Clock, HearthError, systemClock } from '@hearth/common';
import type { AgentConfig } from '../config/index.ts';
import type { PrepareSource } from '../control/index.ts';
import { originCredentials } from '../credentials/index.ts';
import type { OpenOrigin } from '../datasets/index.ts';
import { createOrigin, DirectoryCalls, type Environment, withEnvironment } from '../origins/index.ts';

type OriginConfig = AgentConfig['origins'];

/**
 * Opens origins under this agent's policy. The machine's own identity serves only the listed datasets, if any are
 * listed.
 */
export function originOpener(
  { origins: config, selfTestDirectory }: Pick<AgentConfig, 'origins' | 'selfTestDirectory'>,
  environment: Environment,
  clock: Clock = systemClock,
): OpenOrigin {
  const directoryCalls = new DirectoryCalls({ clock });
  return (source, revision, credentials, dataset) => {
    const ours = credentials === undefined && isIdentityPermitted(config, dataset);
    return createOrigin(
      { ...source, allowPrivate: config.allowPrivate },
      {
        environment: ours ? environment : withoutIdentity(environment),
        nodeIdentity: ours,
        clock,
        allowedAddresses: config.allowedNetworks,
        selfTestDirectory,
        directoryCalls,
        ...(credentials === undefined ? {} : originCredentials(source, credentials)),
        ...(revision === '' ? {} : { revision }),
        ...(config.directoryPrefixes === undefined ? {} : { allowedDirectories: config.directoryPrefixes }),
        ...(config.certificateAuthorities === undefined
          ? {}
          : { certificateAuthorities: config.certificateAuthorities }),
      },
    );
  };
}

/** True when a dataset without its own credentials may read with the machine's identity. */
function isIdentityPermitted({ nodeIdentity }: OriginConfig, dataset: string): boolean {
  return nodeIdentity === undefined || nodeIdentity.some((beginning) => dataset.startsWith(beginning));
}

/** The environment without the machine's identity and its services: HF_TOKEN and all AWS variables. */
function withoutIdentity(environment: Environment): Environment {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => name !== 'HF_TOKEN' && !name.startsWith('AWS_')),
  );
}

/**
 * The registered form of a source: fills in what the source leaves open from this agent's environment, so that all
 * agents read the same place. Private addresses need this agent's permission as well as the source's.
 */
export function sourcePreparer(config: OriginConfig, environment: Environment): PrepareSource {
  return (source, credentialed, dataset) => {
    if (source.allowPrivate && !config.allowPrivate) {
      throw new HearthError(
        'PermissionDenied',
        'the source requests private addresses, which this agent does not allow; set origins.allowPrivate or list the network in origins.allowedNetworks',
      );
    }
    const ours = !credentialed && isIdentityPermitted(config, dataset);
    return withEnvironment(source, ours ? environment : withoutIdentity(environment));
  };
}
