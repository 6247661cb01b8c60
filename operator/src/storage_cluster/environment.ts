import { HearthError } from '@hearth/common';

/** What the chart passes to the operator about its surroundings. */
export interface Environment {
  /** Of the operator, and of everything with a namespace that it makes for StorageClusters. */
  namespace: string;
  /** With all programs of Hearth. */
  image: string;
  etcdImage: string;
  imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  imagePullSecrets: readonly string[];
}

/** From the variables of the pod. `InvalidArgument` names the one that is missing or wrong. */
export function readEnvironment(variables: Readonly<Record<string, string | undefined>>): Environment {
  return {
    namespace: required(variables, 'POD_NAMESPACE'),
    image: required(variables, 'HEARTH_IMAGE'),
    etcdImage: required(variables, 'HEARTH_ETCD_IMAGE'),
    imagePullPolicy: pullPolicy(variables.HEARTH_IMAGE_PULL_POLICY),
    imagePullSecrets: (variables.HEARTH_IMAGE_PULL_SECRETS ?? '').split(',').filter((name) => name !== ''),
  };
}

function required(variables: Readonly<Record<string, string | undefined>>, name: string): string {
  const value = variables[name];
  if (value === undefined || value === '') {
    throw new HearthError(
      'InvalidArgument',
      `the variable ${name} is missing; the chart sets it in the operator's pod`,
    );
  }
  return value;
}

function pullPolicy(value: string | undefined): Environment['imagePullPolicy'] {
  if (value === undefined || value === '') return 'IfNotPresent';
  if (value === 'Always' || value === 'IfNotPresent' || value === 'Never') return value;
  throw new HearthError(
    'InvalidArgument',
    'the variable HEARTH_IMAGE_PULL_POLICY must be Always, IfNotPresent or Never; see imagePullPolicy in the chart',
  );
}
