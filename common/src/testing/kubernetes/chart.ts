import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { root } from '../checkout.ts';
import { type Outcome, run } from '../command.ts';

/** A Kubernetes object from YAML or the API server. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    finalizers?: string[];
    resourceVersion?: string;
    managedFields?: { subresource?: string }[];
  };
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind
  [field: string]: any;
}

export const chartFolder = join(root, 'charts/hearth');
export const releaseNamespace = 'hearth-system';

/** Runs helm on the chart of the repository. `program`: path of helm. */
export class Chart {
  readonly #program: string;

  constructor(program: string) {
    this.#program = program;
  }

  helm(args: string[], kubeconfig?: string): Promise<Outcome> {
    const environment = kubeconfig === undefined ? {} : { KUBECONFIG: kubeconfig };
    return run(this.#program, args, { environment, timeoutMs: 330_000 });
  }

  /** Renders the chart with these values (`--set-json`). Throws helm's message when helm refuses. */
  async template(values: Record<string, unknown> = {}): Promise<Manifest[]> {
    const given = flags({ ...someRegistry, ...values });
    const outcome = await this.helm(['template', 'hearth', chartFolder, '-n', releaseNamespace, ...given]);
    if (outcome.code !== 0) throw new Error(outcome.stderr);
    return parseAllDocuments(outcome.stdout, { version: '1.1' })
      .map((document) => {
        const [error] = [...document.errors, ...document.warnings];
        if (error) throw error;
        return document.toJS() as Manifest | null;
      })
      .filter((one): one is Manifest => one !== null);
  }
}

/** No image is published, so the chart needs a registry. */
export const someRegistry = { 'global.imageRegistry': 'registry.example.com/team' };

export const flags = (values: Record<string, unknown>): string[] =>
  Object.entries(values).flatMap(([key, value]) => ['--set-json', `${key}=${JSON.stringify(value)}`]);

/** The pod specs in these objects, by kind and name of the object. */
export function podSpecs(objects: Manifest[]): Map<string, Manifest['spec']> {
  const all = objects.map(({ kind, metadata, spec }) => {
    return [`${kind} ${metadata.name}`, kind === 'Pod' ? spec : spec?.template?.spec] as const;
  });
  return new Map(all.filter(([, spec]) => spec !== undefined));
}

const plurals: Record<string, string> = {
  CSIDriver: 'csidrivers',
  MutatingWebhookConfiguration: 'mutatingwebhookconfigurations',
  StorageClass: 'storageclasses',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
};
const clusterScoped = new Set([
  'PersistentVolume',
  'ClusterRole',
  'ClusterRoleBinding',
  'CSIDriver',
  'CustomResourceDefinition',
  'MutatingWebhookConfiguration',
  'Namespace',
  'Node',
  'StorageClass',
  'StorageCluster',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
]);

/** The API path for creating this object. */
export function collectionPath(object: Manifest): string {
  const base = object.apiVersion.includes('/') ? `/apis/${object.apiVersion}` : `/api/${object.apiVersion}`;
  const plural = plurals[object.kind] ?? `${object.kind.toLowerCase()}s`;
  if (clusterScoped.has(object.kind)) return `${base}/${plural}`;
  return `${base}/namespaces/${object.metadata.namespace ?? 'default'}/${plural}`;
}
