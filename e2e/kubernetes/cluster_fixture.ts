import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';
import { hearthImage } from '../cluster/images/hearth_image.ts';
import { type ClusterOptions, KubernetesCluster } from '../cluster/kubernetes_cluster.ts';
import { needsCluster } from '../cluster/testing/needs.ts';

let shared: Promise<KubernetesCluster> | undefined;

/**
 * The cluster that all tests of this folder share, with the image `local/hearth:dev` of this checkout on its nodes. Call
 * it in a `describe`; what it returns gives the cluster once the tests run. The cluster starts with the first suite that
 * wants it and ends with the run; its logs are then in build/e2e. A suite works in namespaces of its own and leaves no
 * object behind. HEARTH_E2E_CLUSTER names a cluster of `make cluster` to be used instead, which is quicker in a row;
 * HEARTH_E2E_NODES is the number of nodes of a new cluster, 2 by default.
 */
export function useCluster(): () => KubernetesCluster {
  let cluster: KubernetesCluster | undefined;
  before(async function () {
    this.timeout(45 * 60_000); // The first run on a machine builds the programs and the image.
    await timed('programs', () => needsCluster(this));
    shared ??= open();
    cluster = await shared;
  });
  return () => started(cluster);
}

/**
 * A cluster for one suite, with nothing on it but the image of this checkout. Call it in a `describe` before the hooks that
 * use the cluster. The cluster ends with the suite; its logs are then in build/e2e/NAME.
 */
export function useOwnCluster(
  name: string,
  options: Omit<ClusterOptions, 'name' | 'owned'> = {},
): () => KubernetesCluster {
  let cluster: KubernetesCluster | undefined;
  before(async function () {
    this.timeout(45 * 60_000); // The first run on a machine builds the programs and the image.
    await needsCluster(this);
    const { archive } = await hearthImage();
    cluster = await KubernetesCluster.start({ name: `${name}-${process.pid}`, owned: true, ...options });
    await cluster.importImage(archive);
  });
  after(async () => {
    cluster?.collectLogs(join(root, 'build/e2e', name));
    await cluster?.stop();
  });
  return () => started(cluster);
}

function started(cluster: KubernetesCluster | undefined): KubernetesCluster {
  if (!cluster) throw new Error('the cluster is there once the tests run: use it in `it` and `before`');
  return cluster;
}

async function open(): Promise<KubernetesCluster> {
  const name = process.env.HEARTH_E2E_CLUSTER;
  const nodes = Number(process.env.HEARTH_E2E_NODES ?? 2);
  const own = () => KubernetesCluster.start({ name: `e2e-${process.pid}`, nodes, owned: true });
  const cluster = await timed('cluster', () => (name ? KubernetesCluster.open(name) : own()));
  if (!cluster) throw new Error(`there is no running cluster ${name}; \`make cluster NAME=${name}\` starts it`);
  const { archive } = await timed('image', hearthImage);
  await cluster.importImage(archive);
  return cluster;
}

/** Says how long the preparation of a run took, if that is worth a line. */
async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work();
  const seconds = Math.round((performance.now() - began) / 1000);
  if (seconds > 0) console.log(`      ${what}: ready in ${seconds} s`);
  return result;
}

/** Called by mocha when all suites have run. */
export async function mochaGlobalTeardown(): Promise<void> {
  const cluster = await shared?.catch(() => undefined);
  if (!cluster) return;
  const logs = join(root, 'build/e2e');
  rmSync(logs, { recursive: true, force: true });
  cluster.collectLogs(logs);
  if (!process.env.HEARTH_E2E_CLUSTER) await cluster.stop();
}
