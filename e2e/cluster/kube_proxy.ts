import { dirname, join } from 'node:path';
import type { Machine } from './machine/machine.ts';
import type { Network } from './network.ts';
import { writeSettings } from './settings.ts';

/**
 * Makes the cluster's services reachable from a machine and for what it forwards, by nftables rules of its own. `node`
 * is the Node object that it looks at: where there is none it first waits half a minute for it.
 */
export async function startKubeProxy(
  machine: Machine,
  options: { program: string; kubeconfig: string; node: string; network: Network; logPath: string },
): Promise<void> {
  const config = writeSettings(join(machine.folder, 'kube-proxy.json'), {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'nftables',
    hostnameOverride: options.node,
    clientConnection: { kubeconfig: options.kubeconfig },
    clusterCIDR: options.network.podRanges.join(),
    // The family of a machine that has no Node object, as the control plane's.
    bindAddress: options.network.families[0] === 'IPv6' ? '::' : '0.0.0.0',
    detectLocalMode: 'ClusterCIDR',
    healthzBindAddress: '127.0.0.1:10256',
    metricsBindAddress: '127.0.0.1:10249',
    // The limits of connection tracking belong to the whole kernel.
    conntrack: { maxPerCore: 0 },
  });
  await machine.startService('kube-proxy', options.program, [`--config=${config}`], {
    logPath: options.logPath,
    path: dirname(options.program),
  });
}
