import { HearthError } from '@hearth/common';
import type { Pod } from '@hearth/common/kubernetes';
import { z } from 'zod';

export interface Environment {
  /** The namespace of the operator and of all namespaced objects that it creates. */
  namespace: string;
  image: string;
  etcdImage: string;
  imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  imagePullSecrets: readonly string[];
  pods: Readonly<Record<'agent' | 'holder' | 'etcd', PodSettings>>;
}

type Spec = NonNullable<Pod['spec']>;

/** The chart's values for the pods of a component; the builders choose defaults for absent ones. */
export interface PodSettings {
  /** The policy `hearth-owned-sets` of the chart admits `hearth-COMPONENT` alone. */
  serviceAccountName: string;
  /** Whoever admits the pods chooses their user. */
  anyUser?: boolean;
  podLabels: Readonly<Record<string, string>>;
  podAnnotations: Readonly<Record<string, string>>;
  extraEnv: NonNullable<Spec['containers'][number]['env']>;
  nodeSelector?: Readonly<Record<string, string>>;
  tolerations?: NonNullable<Spec['tolerations']>;
  affinity?: NonNullable<Spec['affinity']>;
  resources?: NonNullable<Spec['containers'][number]['resources']>;
  priorityClassName?: string;
}

const plain = (component: string): PodSettings => {
  return { serviceAccountName: `hearth-${component}`, podLabels: {}, podAnnotations: {}, extraEnv: [] };
};
export const plainPods: Environment['pods'] = {
  agent: plain('agent'),
  holder: plain('holder'),
  etcd: plain('etcd'),
};

const missing = "is missing; the chart sets it in the operator's pod";
const required = z.string(missing).min(1, missing);
const wrongPolicy = 'must be Always, IfNotPresent or Never; see imagePullPolicy in the chart';
const schema = z.object({
  POD_NAMESPACE: required,
  HEARTH_IMAGE: required,
  HEARTH_ETCD_IMAGE: required,
  HEARTH_IMAGE_PULL_POLICY: z.enum(['', 'Always', 'IfNotPresent', 'Never'], wrongPolicy).default(''),
  HEARTH_IMAGE_PULL_SECRETS: z.string().default(''),
  HEARTH_POD_SETTINGS: z.string().default(''),
});

/** Reads the variables of the pod. `InvalidArgument` names a missing or wrong one. */
export function readEnvironment(variables: Readonly<Record<string, string | undefined>>): Environment {
  const { data, error } = schema.safeParse(variables);
  if (data === undefined) {
    const [issue] = error.issues;
    throw new HearthError('InvalidArgument', `the variable ${String(issue?.path[0])} ${issue?.message}`);
  }
  return {
    namespace: data.POD_NAMESPACE,
    image: data.HEARTH_IMAGE,
    etcdImage: data.HEARTH_ETCD_IMAGE,
    imagePullPolicy: data.HEARTH_IMAGE_PULL_POLICY || 'IfNotPresent',
    imagePullSecrets: data.HEARTH_IMAGE_PULL_SECRETS.split(',').filter((name) => name !== ''),
    pods: podSettings(data.HEARTH_POD_SETTINGS),
  };
}

/** Unchecked: the chart's schema validates the values, and the API server the pods. */
function podSettings(text: string): Environment['pods'] {
  let given: Partial<Record<keyof Environment['pods'], Partial<PodSettings>>>;
  try {
    given = JSON.parse(text || '{}');
  } catch (thrown) {
    throw new HearthError('InvalidArgument', `the variable HEARTH_POD_SETTINGS must be JSON: ${thrown}`);
  }
  const of = (component: keyof Environment['pods']): PodSettings => ({ ...plainPods[component], ...given[component] });
  return { agent: of('agent'), holder: of('holder'), etcd: of('etcd') };
}
