import { KubernetesApi, type KubernetesApiOptions } from '@hearth/common/kubernetes';
import { KubeConfig } from '@kubernetes/client-node';
import type { Context } from 'mocha';
import { TestApiServer } from '../../cluster/api_server.ts';
import { ToolUnavailable } from '../../cluster/tools/build.ts';
import { skip } from '../../src/needs.ts';

/** An API server for a suite, which is skipped where Kubernetes cannot be built. */
export async function startApiServer(context: Context): Promise<TestApiServer> {
  context.timeout(30 * 60_000); // The first run on a machine builds the programs.
  try {
    return await TestApiServer.start();
  } catch (error) {
    if (error instanceof ToolUnavailable) skip(context, error.message);
    throw error;
  }
}

export function apiOf(kubeconfig: string, options?: KubernetesApiOptions): KubernetesApi {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return KubernetesApi.fromKubeConfig(config, options);
}
