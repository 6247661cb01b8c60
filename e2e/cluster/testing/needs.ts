import { skip, tools, unlessUnavailable } from '@hearth/common/testing';
import type { Context } from 'mocha';
import { basicImages } from '../images/basic_images.ts';
import { clusterPrograms } from '../kubernetes_cluster.ts';

/** Builds what a cluster needs, which takes minutes once on a machine; skips the suite, with the reason, if it cannot. */
export async function needsCluster(context: Context): Promise<void> {
  if (process.getuid?.() !== 0) skip(context, 'a cluster needs root');
  await unlessUnavailable(context, async () => {
    await tools(clusterPrograms);
    await basicImages();
  });
}
