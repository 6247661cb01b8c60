import { KubernetesApi, type KubernetesApiOptions } from '@hearth/common/kubernetes';
import { needsPrograms } from '@hearth/common/testing';
import { KubeConfig } from '@kubernetes/client-node';
import type { Context } from 'mocha';
import { TestApiServer } from '../../cluster/api_server.ts';

/** An API server for a suite, which is skipped where Kubernetes cannot be built. */
export async function startApiServer(context: Context): Promise<TestApiServer> {
  return await needsPrograms(context, () => TestApiServer.start());
}

export function apiOf(kubeconfig: string, options?: KubernetesApiOptions): KubernetesApi {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return KubernetesApi.fromKubeConfig(config, options);
}
