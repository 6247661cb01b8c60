import { HearthError } from '@hearth/common';
import { KubernetesApi } from '@hearth/common/kubernetes';
import { KubeConfig } from '@kubernetes/client-node';

/** The cluster that kubectl would ask, and the namespace that it would take. `InvalidArgument`: there is none. */
export function connect(
  options: { kubeconfig?: string; context?: string },
  environment: Record<string, string | undefined>,
): { api: KubernetesApi; namespace: string } {
  const config = new KubeConfig();
  try {
    const path = options.kubeconfig ?? environment.KUBECONFIG;
    // Several files, joined by colons, are one configuration: only the default reading knows how.
    if (path?.includes(':') === false) config.loadFromFile(path);
    else config.loadFromDefault();
    if (options.context !== undefined) config.setCurrentContext(options.context);
  } catch (thrown) {
    const why = (thrown as Error).message;
    throw new HearthError('InvalidArgument', `the kubeconfig cannot be read: ${why}; give --kubeconfig`, {
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
  return { api: KubernetesApi.fromKubeConfig(config), namespace: context?.namespace ?? 'default' };
}

/** The client takes localhost when it finds nothing: whatever listens there is no cluster that anybody named. */
function isFallback(config: KubeConfig): boolean {
  const { name, server } = config.getCurrentCluster() ?? {};
  return name === 'cluster' && server === 'http://localhost:8080' && config.getCurrentUser()?.name === 'user';
}
