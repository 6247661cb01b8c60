import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ok, root, until } from '@hearth/common/testing';
import type { Manifest } from '@hearth/common/testing/kubernetes';
import { parseAllDocuments } from 'yaml';
import { engineDefinitions } from './engine_definitions.ts';
import { InstalledChart } from './installed_chart.ts';

const folder = join(root, 'examples/engines');
const documents = (file: string) =>
  parseAllDocuments(readFileSync(join(folder, file), 'utf8')).map((one) => one.toJS() as Manifest);

interface PodSpec {
  tolerations: object[];
  containers: {
    name: string;
    image: string;
    env?: object[];
    args?: string[];
    resources?: { limits?: Record<string, string> };
  }[];
  volumes: {
    name: string;
    csi?: { volumeAttributes: { dataset: string } };
    persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
  }[];
}

/** Engines need GPUs, so here they are taken by the API server only: every field, and every pod that they make. */
describe('the manifests of engines', () => {
  let installed: InstalledChart;
  const files = globSync('*.yaml', { cwd: folder })
    .map((path) => basename(path))
    .sort();

  before(async function () {
    installed = await InstalledChart.start(this);
    for (const definition of engineDefinitions) await installed.create(definition);
    for (const { spec } of engineDefinitions) {
      const path = `/apis/${spec.group}/${spec.versions[0].name}/${spec.names.plural}`;
      await until(`${spec.names.plural} served`, async () => (await installed.admin.ask('GET', path)).code === 200);
    }
  });
  after(() => installed?.stop());

  const dryRun = (input: string, ...words: string[]) =>
    installed.server.kubectl(['apply', '--server-side', '--dry-run=server', '--validate=strict', ...words], { input });

  it('are of vLLM, SGLang, KServe and LeaderWorkerSet', () => {
    assert.deepEqual(files, ['kserve.yaml', 'leaderworkerset.yaml', 'sglang.yaml', 'vllm.yaml']);
  });

  for (const file of files) {
    it(`${file} is taken by the API server, with the pods that it makes`, async () => {
      const said = await ok(dryRun(readFileSync(join(folder, file), 'utf8'), '-f', '-'));
      assert.equal(said.match(/serverside-applied \(server dry run\)/g)?.length, documents(file).length, said);
      for (const [name, spec] of podsOf(documents(file))) {
        const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'models' }, spec };
        await ok(dryRun(JSON.stringify(pod), '-f', '-'));
      }
    });

    it(`${file} holds pods with a GPU back until the bytes of the Dataset that they mount are there`, () => {
      const all = documents(file);
      const dataset = all.find(({ kind }) => kind === 'Dataset');
      assert.equal(dataset?.spec.gate.mode, 'Wait');
      const pods = podsOf(all);
      for (const [name, spec] of pods) {
        assert.deepEqual(datasetsOf(spec, all), [dataset?.metadata.name], name);
        assert.ok(Number(spec.containers[0]?.resources?.limits?.['nvidia.com/gpu']) > 0, name);
        assert.deepEqual(spec.tolerations, [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }], name);
      }
      assert.ok(pods.length > 0);
    });
  }

  it('is a test that refuses a field that there is not', async () => {
    const [dataset] = documents('vllm.yaml');
    const { code, stderr } = await dryRun(
      JSON.stringify({ ...dataset, spec: { ...dataset?.spec, gates: {} } }),
      '-f',
      '-',
    );
    assert.notEqual(code, 0);
    assert.match(stderr, /\.spec\.gates/);
  });
});

/** Name and spec of every pod that these objects have somebody make. */
function podsOf(objects: Manifest[]): [string, PodSpec][] {
  return objects.flatMap(({ kind, metadata: { name }, spec }): [string, PodSpec][] => {
    if (kind === 'Deployment') return [[name, spec.template.spec]];
    if (kind === 'LeaderWorkerSet') {
      const { leaderTemplate, workerTemplate } = spec.leaderWorkerTemplate;
      return [
        [`${name}-leader`, leaderTemplate.spec],
        [`${name}-worker`, workerTemplate.spec],
      ];
    }
    return kind === 'InferenceService' ? [[name, predictorPod(spec.predictor)]] : [];
  });
}

/** As KServe makes it for a model in a claim. */
function predictorPod({ model, tolerations }: Manifest['spec']): PodSpec {
  const { storageUri, env, args, resources } = model;
  const claimName = /^pvc:\/\/(.+)$/.exec(storageUri)?.[1] ?? '';
  return {
    tolerations,
    containers: [{ name: 'kserve-container', image: 'kserve/huggingfaceserver', env, args, resources }],
    volumes: [{ name: 'kserve-pvc-source', persistentVolumeClaim: { claimName, readOnly: true } }],
  };
}

/** The Datasets that a pod mounts: inline, or by a claim among these objects. */
function datasetsOf({ volumes }: PodSpec, objects: Manifest[]): string[] {
  return volumes.flatMap(({ csi, persistentVolumeClaim }) => {
    const named = persistentVolumeClaim?.claimName;
    const claim = objects.find(({ kind, metadata }) => kind === 'PersistentVolumeClaim' && metadata.name === named);
    return csi?.volumeAttributes.dataset ?? claim?.spec.dataSourceRef?.name ?? [];
  });
}
