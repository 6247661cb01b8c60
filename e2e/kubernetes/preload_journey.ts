import { join } from 'node:path';
import { bytesOf, MiB, type Outcome, root, run, sha256, until } from '@hearth/common/testing';
import type { Manifest } from '@hearth/common/testing/kubernetes';
import type { FileOrigin } from '@hearth/common/testing/origins';
import { inline, type Journey, useJourney } from './journey.ts';

const gateName = 'hearth.storage/preload';
let seed = 800;

/** A gate of a Dataset. */
export const waiting = (more: object = {}) => ({ gate: { mode: 'Wait', timeout: '5m', ...more } });

/** The part of a CachePreload's spec that is about one Dataset on these nodes. */
export const onNode = (dataset: string, ...nodeNames: string[]) => ({
  datasets: [{ name: dataset }],
  placement: { nodeNames },
});

/** A Journey with Datasets whose bytes are brought before pods want them, from an origin that can be slow and fail. */
export class PreloadJourney {
  readonly journey: Journey;

  constructor(journey: Journey) {
    this.journey = journey;
  }

  get origin(): FileOrigin {
    return this.journey.origin;
  }

  /** A Dataset of one file that no other test knows. */
  model(name: string, spec: object = {}, size = 24 * MiB): { manifest: Manifest; digest: string; size: number } {
    seed += 1;
    const bytes = bytesOf(seed, size);
    const urls = [this.origin.add(`${name}/weights`, bytes)];
    return { manifest: this.journey.dataset(name, { http: { urls } }, spec), digest: sha256(bytes), size };
  }

  /** A pod that any node may take, and that ends well when it has read the right bytes. */
  reader(name: string, dataset: string, digest: string, more: { spec?: object; annotations?: object } = {}) {
    const command = `echo "${digest}  /models/weights" | sha256sum -c && sleep 1`;
    const pod = this.journey.reader(name, inline(dataset), { command });
    const { nodeSelector: _, ...spec } = pod.spec;
    return { ...pod, metadata: { ...pod.metadata, annotations: more.annotations }, spec: { ...spec, ...more.spec } };
  }

  preload(name: string, spec: object): Manifest {
    const metadata = { name, namespace: this.journey.namespace };
    return { apiVersion: 'hearth.storage/v1alpha1', kind: 'CachePreload', metadata, spec };
  }

  async pod(name: string): Promise<Manifest> {
    const found = await this.journey.get('pod', name);
    if (found === undefined) throw new Error(`there is no pod ${name}`);
    return found;
  }

  /** Name of the CachePreload that is the plan for a pod. */
  async planOf(pod: string): Promise<string> {
    return (await this.pod(pod)).metadata.annotations?.[gateName] ?? '';
  }

  async isGated(pod: string): Promise<boolean> {
    const gates = ((await this.pod(pod)).spec.schedulingGates ?? []) as { name: string }[];
    return gates.some(({ name }) => name === gateName);
  }

  released(pod: string): Promise<true> {
    return until(`pod ${pod} is released`, async () => !(await this.isGated(pod))) as Promise<true>;
  }

  async statusOf(preload: string) {
    return (await this.journey.get('cachepreload', preload))?.status;
  }

  gone(preload: string): Promise<true> {
    const isAway = async () => !(await this.journey.get('cachepreload', preload));
    return until(`${preload} is away`, isAway) as Promise<true>;
  }

  async isComplete(node: string, dataset: string): Promise<boolean> {
    const rows = (await this.journey.get('dataset', dataset))?.status.residency ?? [];
    return rows.some((row: { node: string; percent: number }) => row.node === node && row.percent === 100);
  }

  explain(pod: string, ...flags: string[]): Promise<Outcome> {
    const { cluster, namespace } = this.journey;
    const words = ['explain', `pod/${pod}`, '-n', namespace, '--kubeconfig', cluster.kubeconfig, ...flags];
    return run(join(root, 'cli/bin/hearth'), words);
  }
}

/** As useJourney, with an origin that is fast and well again after every test. */
export function usePreloadJourney(namespace: string): () => PreloadJourney {
  const journey = useJourney(namespace);
  let made: PreloadJourney | undefined;
  before(() => {
    made = new PreloadJourney(journey());
  });
  afterEach(() => {
    if (made) Object.assign(made.origin, { bytesPerSecond: undefined, failing: false });
  });
  return () => {
    if (!made) throw new Error('the journey begins once the tests run');
    return made;
  };
}
