// A cluster for people: node e2e/cluster/main.ts up | down | image | logs FOLDER
//   NAME    (dev)  its name; several can run beside each other
//   NODES   (2)    how many nodes
//   REGISTRY       of image: push it there instead, as REGISTRY/hearth:TAG
//   TAG            the version of this checkout when not given
//   REGISTRY_PLAIN 1: by http too, and without a look at certificates

import { ToolUnavailable } from '@hearth/common/testing';
import { hearthImage, hearthImageName, hearthVersion, publishHearthImage } from './images/hearth_image.ts';
import { KubernetesCluster } from './kubernetes_cluster.ts';
import { remove, removeOrphans } from './state.ts';
import { usage } from './usage.ts';

const name = process.env.NAME || 'dev';
const [command, argument] = process.argv.slice(2);

async function up(): Promise<void> {
  const running = await KubernetesCluster.open(name);
  if (running) return console.log(await usage(running));
  // One that was interrupted, by a reboot for example.
  await remove(name);
  const started = performance.now();
  const cluster = await KubernetesCluster.start({ name, nodes: Number(process.env.NODES || 2) });
  console.log(await usage(cluster));
  console.log(`Started in ${((performance.now() - started) / 1000).toFixed(0)} s.`);
}

async function down(): Promise<void> {
  await remove(name);
  for (const orphan of await removeOrphans()) console.log(`Removed what an interrupted run has left: ${orphan}`);
}

/** Builds the image of this checkout, and pushes it to a registry, or puts it on the nodes where the cluster runs. */
async function image(): Promise<void> {
  const { archive, compressedBytes } = await hearthImage();
  console.log(`${hearthImageName}: ${(compressedBytes / 2 ** 20).toFixed(0)} MiB compressed, ${archive}`);
  const { REGISTRY: registry, TAG: tag = hearthVersion(), REGISTRY_PLAIN: plain } = process.env;
  if (registry) {
    const pushed = await publishHearthImage(registry, tag, plain === '1');
    const value = tag === hearthVersion() ? `global.imageRegistry=${registry}` : `image=${pushed}`;
    console.log(`Pushed ${pushed}; install the chart with --set ${value}`);
    return;
  }
  const cluster = await KubernetesCluster.open(name);
  if (!cluster) return;
  await cluster.importImage(archive);
  console.log(`It is on the nodes of cluster ${name}; pods that run keep the image they have.`);
}

async function logs(folder: string): Promise<void> {
  const cluster = await KubernetesCluster.open(name);
  if (!cluster) throw new ToolUnavailable(`There is no running cluster ${name}.`);
  cluster.collectLogs(folder);
  console.log(folder);
}

try {
  if (process.getuid?.() !== 0)
    throw new ToolUnavailable('Clusters and images need root: namespaces, mounts, devices.');
  if (command === 'up') await up();
  else if (command === 'down') await down();
  else if (command === 'image') await image();
  else if (command === 'logs' && argument) await logs(argument);
  else throw new ToolUnavailable('Usage: node e2e/cluster/main.ts up | down | image | logs FOLDER');
} catch (error) {
  if (!(error instanceof ToolUnavailable)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
