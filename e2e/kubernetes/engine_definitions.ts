import type { Manifest } from '@hearth/common/testing/kubernetes';

type Schema = Record<string, unknown>;

const text = { type: 'string' };
const count = { type: 'integer', format: 'int32', minimum: 0 };
const oneOf = (...values: string[]): Schema => ({ type: 'string', enum: values });
const object = (properties: Record<string, Schema>, required: string[] = []): Schema => ({
  type: 'object',
  properties,
  required,
});
const list = (items: Schema): Schema => ({ type: 'array', items });
/** Parts of pods: tests give them to the API server as pods. */
const partOfPod = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
const podTemplate = object({ metadata: partOfPod, spec: partOfPod });

/**
 * The parts of the definitions of others that the examples use, with the names and types of the published ones, for a dry run
 * that refuses everything else: LeaderWorkerSet 0.9 and KServe 0.16.
 */
export const engineDefinitions: readonly Manifest[] = [
  definition('leaderworkerset.x-k8s.io', 'v1', 'leaderworkersets', 'LeaderWorkerSet', {
    replicas: count,
    startupPolicy: oneOf('LeaderCreated', 'LeaderReady'),
    leaderWorkerTemplate: object(
      {
        size: { ...count, minimum: 1 },
        restartPolicy: oneOf('Default', 'RecreateGroupOnPodRestart', 'RecreateGroupAfterStart', 'None'),
        leaderTemplate: podTemplate,
        workerTemplate: podTemplate,
      },
      ['workerTemplate'],
    ),
  }),
  definition('serving.kserve.io', 'v1beta1', 'inferenceservices', 'InferenceService', {
    predictor: object({
      minReplicas: count,
      tolerations: list(partOfPod),
      nodeSelector: { type: 'object', additionalProperties: text },
      model: object(
        {
          modelFormat: object({ name: text, version: text }, ['name']),
          runtime: text,
          storageUri: text,
          args: list(text),
          env: list(partOfPod),
          resources: partOfPod,
        },
        ['modelFormat'],
      ),
    }),
  }),
];

function definition(
  group: string,
  version: string,
  plural: string,
  kind: string,
  spec: Record<string, Schema>,
): Manifest {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, annotations: annotationsOf(group) },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List` },
      versions: [
        { name: version, served: true, storage: true, schema: { openAPIV3Schema: object({ spec: object(spec) }) } },
      ],
    },
  };
}

/** Groups below k8s.io are reserved; the API server asks for this. */
function annotationsOf(group: string): Record<string, string> {
  return group.endsWith('.k8s.io') ? { 'api-approved.kubernetes.io': 'unapproved, for tests' } : {};
}
