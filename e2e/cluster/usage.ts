import { join } from 'node:path';
import { root, tool } from '@hearth/common/testing';
import { etcdImage } from './images/basic_images.ts';
import { hearthImageName } from './images/hearth_image.ts';
import type { KubernetesCluster } from './kubernetes_cluster.ts';

/** Arguments of helm for a cluster whose images are on its nodes, and come from no registry. */
export async function chartValues(): Promise<string[]> {
  const values = {
    image: hearthImageName,
    imagePullPolicy: 'Never',
    'etcd.image': etcdImage(await tool('etcd')),
  };
  return Object.entries(values).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
}

/** The text about a cluster for a person. Lines that begin with two spaces are for a shell, as they are, one by one. */
export async function usage(cluster: KubernetesCluster): Promise<string> {
  const chart = quoted(join(root, 'charts/hearth'));
  const place = '--namespace hearth-system --create-namespace';
  return `Cluster ${cluster.name}: ${cluster.nodes.length} nodes, API server ${cluster.plane.url}

  export KUBECONFIG=${quoted(cluster.kubeconfig)} PATH=${quoted(cluster.programFolders.join(':'))}:"$PATH"
  kubectl get nodes

Hearth of this checkout on it:

  make -C ${quoted(root)} image NAME=${cluster.name}
  helm upgrade --install hearth ${chart} ${place} ${(await chartValues()).join(' ')} --wait
  kubectl apply -f ${quoted(join(root, 'examples/storagecluster.yaml'))}
  kubectl wait storagecluster/main --for=condition=Ready --timeout=5m

This host is ${cluster.network.hostAddress} for its nodes and pods; from here pods and services have their own addresses.
Images on its nodes: local/busybox:1, ${etcdImage(await tool('etcd'))}, and ${hearthImageName} after \`make image\`
(imagePullPolicy: Never).
A shell on a node: nsenter --target=${cluster.nodes[0]?.machine.pid} --mount --net --pid
Logs: ${cluster.logFolder}
\`make cluster-down NAME=${cluster.name}\` removes it.`;
}

/** A word of a shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
