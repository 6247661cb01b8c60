import type { Context } from 'mocha';
import { skip } from '../../src/needs.ts';
import { basicImages } from '../images/basic_images.ts';
import { clusterPrograms } from '../kubernetes_cluster.ts';
import { ToolUnavailable, tools } from '../tools/build.ts';

/** Builds what a cluster needs, which takes minutes once on a machine; skips the suite, with the reason, if it cannot. */
export async function needsCluster(context: Context): Promise<void> {
  if (process.getuid?.() !== 0) skip(context, 'a cluster needs root');
  try {
    await tools(clusterPrograms);
    await basicImages();
  } catch (error) {
    if (error instanceof ToolUnavailable) skip(context, error.message);
    throw error;
  }
}
