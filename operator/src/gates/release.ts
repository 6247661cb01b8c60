import { HearthError, type Logger } from '@hearth/common';
import { type KubernetesClient, kinds, type Pod } from '@hearth/common/kubernetes';
import { preloadGateName } from '@hearth/common/resources';
import type { AffinityPlan } from '../planner/index.ts';
import { withPlan } from './affinity.ts';
import { isGated } from './pod_view.ts';

/** How often a pod that others change at the same time is tried. */
const tries = 5;
/** The API server's answers to an update that it, or a policy of the cluster, does not take. */
export const refusals: ReadonlySet<string> = new Set(['InvalidArgument', 'PermissionDenied']);

export interface ReleaseOptions {
  api: Pick<KubernetesClient, 'get' | 'patch'>;
  logger: Logger;
}

/**
 * Opens our gate of a pod and writes its affinity, in one update. Gates of others stay. false: the pod has gone, or
 * another client has opened the gate. A plan that the API server refuses is left out: no pod stays behind for it.
 */
export async function releasePod(
  { api, logger }: ReleaseOptions,
  given: Pod,
  affinity: AffinityPlan | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const { name = '', namespace = '', uid } = given.metadata ?? {};
  let pod: Pod | undefined = given;
  let wanted = affinity;
  for (let attempt = 1; ; ++attempt) {
    try {
      await api.patch(kinds.Pod, name, namespace, releasePatch(pod, wanted), { kind: 'merge', signal });
      return true;
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.code === 'NotFound') return false;
      if (refusals.has(error.code) && wanted !== undefined) {
        logger.warn('the API server refused the affinity of a pod; released it without', { namespace, name, error });
        wanted = undefined;
      } else if (error.code !== 'Conflict' || attempt === tries) {
        throw error;
      }
    }
    pod = await api.get(kinds.Pod, name, namespace, signal);
    if (pod === undefined || pod.metadata?.uid !== uid || !isGated(pod)) return false;
  }
}

/** Pure. As a merge patch, which replaces lists as a whole: so it holds for the version that it was made from only. */
export function releasePatch({ metadata, spec }: Pod, affinity: AffinityPlan | undefined): object {
  const others = (spec?.schedulingGates ?? []).filter(({ name }) => name !== preloadGateName);
  const nodeAffinity = affinity && withPlan(spec?.affinity?.nodeAffinity, affinity);
  return {
    metadata: { uid: metadata?.uid, resourceVersion: metadata?.resourceVersion },
    spec: {
      schedulingGates: others,
      ...(nodeAffinity === undefined ? {} : { affinity: { nodeAffinity } }),
    },
  };
}
