import { type Clock, HearthError, systemClock } from '@hearth/common';
import type { AgentConfig } from '../config/index.ts';
import type { PrepareSource } from '../control/index.ts';
import { originCredentials } from '../credentials/index.ts';
import type { OpenOrigin } from '../datasets/index.ts';
import { createOrigin, DirectoryCalls, type Environment, withEnvironment } from '../origins/index.ts';

type OriginConfig = AgentConfig['origins'];

/** Opens origins with this agent's policy. The machine's own identity is for datasets that are listed, if any are. */
export function originOpener(
  { origins: config, selfTestDirectory }: Pick<AgentConfig, 'origins' | 'selfTestDirectory'>,
  environment: Environment,
  clock: Clock = systemClock,
): OpenOrigin {
  const directoryCalls = new DirectoryCalls({ clock });
  return (source, revision, credentials, dataset) => {
    const ours = credentials === undefined && mayUseIdentity(config, dataset);
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

/** True when a dataset without credentials of its own may read as this machine. */
function mayUseIdentity({ nodeIdentity }: OriginConfig, dataset: string): boolean {
  return nodeIdentity === undefined || nodeIdentity.some((beginning) => dataset.startsWith(beginning));
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
  return (source, credentialed, dataset) => {
    if (source.allowPrivate && !config.allowPrivate) {
      throw new HearthError(
        'PermissionDenied',
        'the source asks for private addresses, which this agent does not allow; set origins.allowPrivate or list the network in origins.allowedNetworks',
      );
    }
    const ours = !credentialed && mayUseIdentity(config, dataset);
    return withEnvironment(source, ours ? environment : withoutIdentity(environment));
  };
}
