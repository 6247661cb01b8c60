import { HearthError } from '@hearth/common';
import type { Pod } from '@hearth/common/kubernetes';
import type { Admission } from './admit.ts';

/** The API server's question, as far as it matters here (admission.k8s.io/v1). */
export interface AdmissionRequest {
  uid: string;
  namespace: string;
  operation: string;
  /** Undefined: the object is no pod. */
  pod: Pod | undefined;
}

/** `InvalidArgument`: nothing that could be answered, since the answer must name the request. */
export function readReview(body: unknown): AdmissionRequest {
  const review = body as { apiVersion?: unknown; kind?: unknown; request?: Record<string, unknown> } | null;
  const request = review?.request;
  if (review?.kind !== 'AdmissionReview' || review.apiVersion !== 'admission.k8s.io/v1' || !request) {
    throw new HearthError('InvalidArgument', 'the body is no AdmissionReview of admission.k8s.io/v1');
  }
  const { uid, namespace, operation, resource, subResource, object } = request as Record<string, unknown> & {
    resource?: { group?: string; resource?: string };
  };
  if (typeof uid !== 'string' || uid === '') {
    throw new HearthError('InvalidArgument', 'the AdmissionReview has no uid');
  }
  const isPods = resource?.group === '' && resource.resource === 'pods' && !subResource;
  const isObject = typeof object === 'object' && object !== null && !Array.isArray(object);
  return {
    uid,
    namespace: typeof namespace === 'string' ? namespace : '',
    operation: typeof operation === 'string' ? operation : '',
    pod: isPods && isObject ? (object as Pod) : undefined,
  };
}

/** The API server takes no longer ones without cutting them. */
const longestWarning = 256;

/** Always allowed: Hearth refuses no pod. */
export function reviewOf(uid: string, { patch, warnings }: Pick<Admission, 'patch' | 'warnings'>): object {
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: {
      uid,
      allowed: true,
      ...(patch.length === 0
        ? {}
        : { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') }),
      ...(warnings.length === 0 ? {} : { warnings: warnings.map((one) => one.slice(0, longestWarning)) }),
    },
  };
}
