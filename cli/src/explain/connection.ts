import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { KubernetesApi } from '@hearth/common/kubernetes';
import type { KubeConfig } from '@kubernetes/client-node';

const namespaceFile = '/var/run/secrets/kubernetes.io/serviceaccount/namespace';

/** A cluster, and the default namespace of objects. */
export interface ConnectedCluster {
  api: KubernetesApi;
  namespace: string;
  /** For running programs in pods, which needs client-node. */
  kubeConfig: () => Promise<KubeConfig>;
}

/** The cluster and namespace that kubectl would use. Throws `InvalidArgument` when there is none. */
export async function connect(
  options: { kubeconfig?: string; context?: string },
  environment: Record<string, string | undefined>,
): Promise<ConnectedCluster> {
  if (isPod(options, environment)) {
    return {
      api: KubernetesApi.fromDefault(),
      namespace: readFileSync(namespaceFile, 'utf8').trim(),
      kubeConfig: ofPod,
    };
  }
  // The kubeconfig library takes longer to load than the rest of the command.
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  try {
    const path = options.kubeconfig ?? environment.KUBECONFIG;
    // Only the default loading merges several files joined by colons.
    if (path?.includes(':') === false) config.loadFromFile(path);
    else config.loadFromDefault();
    if (options.context !== undefined) config.setCurrentContext(options.context);
  } catch (thrown) {
    const why = (thrown as Error).message;
    throw new HearthError('InvalidArgument', `cannot read the kubeconfig: ${why}; give --kubeconfig`, {
      cause: thrown,
    });
  }
  if (isFallback(config)) {
    throw new HearthError(
      'InvalidArgument',
      'there is no kubeconfig ($KUBECONFIG, ~/.kube/config) and no service account of a pod; give --kubeconfig',
    );
  }
  const context = config.getContextObject(config.getCurrentContext());
  if (config.getCurrentCluster() === null) {
    throw new HearthError(
      'InvalidArgument',
      `the kubeconfig has no context ${config.getCurrentContext() || '(none is current)'}; give --context, or see kubectl config get-contexts`,
    );
  }
  const namespace = context?.namespace ?? 'default';
  return { api: KubernetesApi.fromKubeConfig(config), namespace, kubeConfig: async () => config };
}

async function ofPod(): Promise<KubeConfig> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  config.loadFromCluster();
  return config;
}

/** True in a pod with a service account, unless the user named another cluster. */
function isPod(
  { kubeconfig, context }: { kubeconfig?: string; context?: string },
  environment: Record<string, string | undefined>,
): boolean {
  const named = kubeconfig ?? context ?? environment.KUBECONFIG;
  if (named || !environment.KUBERNETES_SERVICE_HOST) return false;
  return existsSync(namespaceFile) && !existsSync(join(environment.HOME ?? homedir(), '.kube/config'));
}

/** client-node falls back to localhost, which is no cluster that anyone configured. */
function isFallback(config: KubeConfig): boolean {
  const { name, server } = config.getCurrentCluster() ?? {};
  return name === 'cluster' && server === 'http://localhost:8080' && config.getCurrentUser()?.name === 'user';
}
