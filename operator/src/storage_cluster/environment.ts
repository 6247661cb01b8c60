import { HearthError } from '@hearth/common';
import type { Pod } from '@hearth/common/kubernetes';

/** The operator's surroundings, as the chart passes them. */
export interface Environment {
  /** Of the operator, and of everything with a namespace that it makes for StorageClusters. */
  namespace: string;
  /** With all programs of Hearth. */
  image: string;
  etcdImage: string;
  imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  imagePullSecrets: readonly string[];
  /** Of the pods that the operator makes. */
  pods: Readonly<Record<'agent' | 'holder' | 'etcd', PodSettings>>;
}

type Spec = NonNullable<Pod['spec']>;

/** The chart's values for the pods of a component; the builder of the pods chooses absent ones. */
export interface PodSettings {
  serviceAccountName?: string;
  /** The pod has the token of its account; absent: it has none. */
  mountsToken?: boolean;
  podLabels: Readonly<Record<string, string>>;
  podAnnotations: Readonly<Record<string, string>>;
  extraEnv: NonNullable<Spec['containers'][number]['env']>;
  nodeSelector?: Readonly<Record<string, string>>;
  tolerations?: NonNullable<Spec['tolerations']>;
  affinity?: NonNullable<Spec['affinity']>;
  resources?: NonNullable<Spec['containers'][number]['resources']>;
  priorityClassName?: string;
}

const none: PodSettings = { podLabels: {}, podAnnotations: {}, extraEnv: [] };
/** Pods as they are without the chart's values. */
export const plainPods: Environment['pods'] = { agent: none, holder: none, etcd: none };

/** From the variables of the pod. `InvalidArgument` names the one that is missing or wrong. */
export function readEnvironment(variables: Readonly<Record<string, string | undefined>>): Environment {
  return {
    namespace: required(variables, 'POD_NAMESPACE'),
    image: required(variables, 'HEARTH_IMAGE'),
    etcdImage: required(variables, 'HEARTH_ETCD_IMAGE'),
    imagePullPolicy: pullPolicy(variables.HEARTH_IMAGE_PULL_POLICY),
    imagePullSecrets: (variables.HEARTH_IMAGE_PULL_SECRETS ?? '').split(',').filter((name) => name !== ''),
    pods: podSettings(variables.HEARTH_POD_SETTINGS),
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

/** The chart's schema has checked the values, and the API server checks the pods. */
function podSettings(text: string | undefined): Environment['pods'] {
  let given: Partial<Record<keyof Environment['pods'], Partial<PodSettings>>>;
  try {
    given = JSON.parse(text || '{}');
  } catch (thrown) {
    throw new HearthError('InvalidArgument', `the variable HEARTH_POD_SETTINGS must be JSON: ${thrown}`);
  }
  const of = (component: keyof Environment['pods']): PodSettings => ({ ...plainPods[component], ...given[component] });
  return { agent: of('agent'), holder: of('holder'), etcd: of('etcd') };
}
