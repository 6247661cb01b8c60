// Reads in pods against the node's own disk, in a cluster that this starts and removes. Prints the table of `make bench`
// and writes bench/results-pods.json.
// BENCH_BYTES (1 GiB) of the large file, BENCH_RUNS (5). BENCH_ROWS=pod-preloaded: only the row of a preloaded Dataset.
// Ends with 0 when each row could be measured, whether or not its target was reached.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root, run, until } from '@hearth/common/testing';
import { makeFiles, makeSmallFiles } from '../../bench/data.ts';
import { describeMachine, processor } from '../../bench/machine.ts';
import { type Measure, measure, type Row, tableHead, tableLines } from '../../bench/result.ts';
import { hearthImage } from '../cluster/images/hearth_image.ts';
import { KubernetesCluster } from '../cluster/kubernetes_cluster.ts';
import { inline, install, Journey } from '../kubernetes/journey.ts';
import { mounts, PodReader, smallFiles } from './pod_reader.ts';
import { podStart } from './pod_start.ts';
import { preloadedPod } from './preloaded_pod.ts';

const bytes = Number(process.env.BENCH_BYTES || 2 ** 30);
const runs = Number(process.env.BENCH_RUNS || 5);
const reader = join(root, 'build/release/bench/hearth_bench_reader');

/** Reads of a pod, by how its volume was mounted; the pod on a mount that was made before all was there has FUSE. */
async function pods(journey: Journey): Promise<Record<'fuse' | 'view' | 'careless', PodReader>> {
  const start = async (name: string, volume: object, kind: RegExp) => {
    const pod = new PodReader(journey, name);
    await pod.start(volume, dirname(reader));
    await pod.checkMount(kind);
    return pod;
  };
  const whole = async () => (await journey.get('dataset', 'model'))?.status.nodes === 1;
  const fuse = await start('fuse', inline('model'), mounts.fuse);
  await fuse.readAll();
  await until('all of it is there', whole);
  const view = await start('view', inline('model'), mounts.files);
  // A pod that does not say readOnly, so that the volume has to be read-only by itself: as files without owners,
  // or by an overlay where the kernel has no such mounts.
  const open = { csi: { ...inline('model').csi, readOnly: false } };
  return { fuse, view, careless: await start('careless', open, mounts.filesOrOverlay) };
}

/** Single reads from the node's own disk differ by a factor of two. */
const times = 5;

function rows(found: Awaited<ReturnType<typeof pods>>): Measure[] {
  const all: Measure[] = [];
  for (const [name, pod] of Object.entries(found)) {
    for (const mode of ['read', 'mmap', 'small'] as const) {
      // Each file is opened through the daemon there: volumes that are mounted when complete are for many small files.
      const target = name === 'fuse' && mode === 'small' ? 0 : 0.95;
      const what = `${mode === 'small' ? `${smallFiles} files of 16 KiB` : mode} in a pod, ${name}`;
      const unit = mode === 'small' ? 'k/s' : 'GiB/s';
      const sides = { value: () => pod.measure(mode, '/models'), baseline: () => pod.measure(mode, '/native') };
      all.push({ id: `pod-${name}-${mode}`, what, unit, better: 'more', target, times, sides });
    }
  }
  return all;
}

async function main(cluster: KubernetesCluster): Promise<void> {
  await cluster.importImage((await hearthImage()).archive);
  const journey = new Journey(cluster, 'bench');
  await journey.must('create', 'namespace', 'bench');
  await install(journey);
  const [node] = cluster.nodes;
  const native = node?.machine.path('/var/cache/native') ?? '';
  for (const folder of [join(journey.shared, 'bench'), native]) {
    mkdirSync(folder, { recursive: true });
    makeFiles(join(folder, 'large'), 1, bytes);
    makeSmallFiles(join(folder, 'small'), smallFiles, 16 * 1024);
  }
  await journey.apply(journey.dataset('model', { directory: { path: join(journey.shared, 'bench') } }));
  await journey.ready('dataset/model');
  const machine = await describeMachine(cluster.folder);
  console.log(
    `${processor()}, ${machine.cores} cores, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, ` +
      `${machine.disk} ${machine.fileSystem}\n${bytes / 2 ** 20} MiB, ${runs} runs\n\n${tableHead()}`,
  );
  const measured: Row[] = [];
  const take = async (one: Measure): Promise<void> => {
    const row = await measure(one, runs, machine);
    measured.push(row);
    console.log(tableLines(row));
  };
  if (process.env.BENCH_ROWS !== 'pod-preloaded') {
    for (const one of [...rows(await pods(journey)), podStart(journey)]) await take(one);
  }
  // Last: with memory for files, mounts of the other rows would be other ones.
  await take(await preloadedPod(journey, bytes, dirname(reader)));
  const results = join(root, 'bench/results-pods.json');
  writeFileSync(results, `${JSON.stringify(measured, null, 2)}\n`);
  const below = measured.filter((row) => row.ratio < row.target).map(({ id }) => id);
  console.log(`\n${measured.length} rows, written to ${results}`);
  if (below.length > 0) console.log(`below their targets: ${below.join(', ')}`);
}

const existing = process.env.HEARTH_E2E_CLUSTER;
const opened = existing ? await KubernetesCluster.open(existing) : undefined;
const cluster = opened ?? (await KubernetesCluster.start({ name: `bench-${process.pid}`, nodes: 1, owned: true }));
try {
  if ((await run(reader, [])).code === 127) throw new Error(`there is no ${reader}; \`make build\` makes it`);
  await main(cluster);
} finally {
  if (opened) await opened.kubectl(['delete', 'namespace', 'bench', '--wait=false']);
  else await cluster.stop();
}
