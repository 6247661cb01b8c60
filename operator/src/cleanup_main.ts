import { HearthError } from '@hearth/common';
import { KubernetesApi } from '@hearth/common/kubernetes';
import { cleanup } from './cleanup/index.ts';
import { runProcess } from './process.ts';

const usage = `Usage: hearth-cleanup

Run by the chart before it is uninstalled: stops the operator and removes agents, then StorageClusters and everything
that the operator made, our finalizers and startup taints. Datasets and volumes stay. While pods mount volumes of ours it
names them, removes nothing but agents, which come back, and ends with exit code 9, unless HEARTH_CLEANUP_FORCE is true.
Variables: POD_NAMESPACE, HEARTH_LOG_LEVEL, HEARTH_CLEANUP_FORCE.
`;

/** Below the deadline of the chart's Job. */
const deadlineMs = 200_000;
const timeoutMs = 100_000;

if (process.argv.includes('--help')) process.stdout.write(usage);
else
  process.exit(
    await runProcess('hearth-cleanup', async (logger, signal) => {
      const namespace = process.env.POD_NAMESPACE;
      if (namespace === undefined || namespace === '') {
        throw new HearthError('InvalidArgument', 'the variable POD_NAMESPACE is missing; the chart sets it');
      }
      const force = process.env.HEARTH_CLEANUP_FORCE === 'true';
      const api = KubernetesApi.fromDefault({ userAgent: 'hearth-cleanup' });
      try {
        await cleanup({ api, namespace, logger, force, timeoutMs, deadlineMs, signal });
      } finally {
        api.close();
      }
    }),
  );
