import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TestCluster } from '../../testing/cluster.ts';
import { directorySource, fileRow } from '../../testing/fake_origin.ts';

const soon = () => AbortSignal.timeout(300_000);

/** For a suite: two agents with a Dataset of one file to add, and what a CSI driver and the clock do to their volumes. */
export function useVolumes() {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], [fileRow('x', 5n)]);
  });
  afterEach(async () => cluster.close());

  async function add(name = 'd'): Promise<string> {
    const request = { source: directorySource, include: [], exclude: [] };
    return (await cluster.agent('a').resolution.add(name, request, () => {}, soon())).dataset.manifest;
  }
  const publish = (manifest = '', dataset = 'd', node = 'a', mapsIds = false) =>
    cluster.agent(node).volumeMounts.publish({ dataset, manifest, mapsIds }, soon());
  const published = (node = 'a') => join(cluster.volumesOf(node), 'published');
  async function record(id: string, manifest: string, node = 'a', more = {}): Promise<void> {
    await mkdir(published(node), { recursive: true });
    const text = JSON.stringify({
      id,
      volume: `v-${id}`,
      target: `/t/${id}`,
      dataset: 'd',
      manifest,
      dataPath: 'fuse',
      ...more,
    });
    await writeFile(join(published(node), `${id}.json`), text);
  }
  const scan = () => cluster.agent('a').volumeMounts.scan();
  /** Advances past the first read of all records, and then past the grace of unnamed mounts. */
  async function grace(): Promise<void> {
    await scan();
    await cluster.clock.advance(cluster.timings.unnamedMountMs);
    await scan();
  }
  const unrecord = (id: string) => rm(join(published(), `${id}.json`));
  const targets = (node = 'a') => [...(cluster.disks.get(node)?.mounts.keys() ?? [])];
  function complete(node = 'a'): void {
    const engine = cluster.engine(node);
    engine.disk.viewsPossible = true;
    const row = fileRow('x', 5n);
    engine.addResident(row.contentKey ?? '', 5n);
  }

  return { cluster: () => cluster, add, publish, published, record, scan, grace, unrecord, targets, complete };
}
