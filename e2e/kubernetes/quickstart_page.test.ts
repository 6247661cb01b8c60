import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ok, root } from '@hearth/common/testing';
import { type Chart, chartFolder, type Manifest } from '@hearth/common/testing/kubernetes';
import { parseAllDocuments } from 'yaml';
import { InstalledChart } from './installed_chart.ts';

/** Names that a person has in place of the words in capitals. */
const names = { ACCOUNT: '123456789012', REGION: 'eu-central-1', BUCKET: 'models' };

/** The quick starts where there are neither kind nor a cloud: Helm renders their commands, an API server takes their objects. */
describe('docs/quickstart.md', () => {
  let installed: InstalledChart;
  let chart: Chart;
  const page = Object.entries(names).reduce(
    (text, [word, name]) => text.replaceAll(word, name),
    readFileSync(join(root, 'docs/quickstart.md'), 'utf8'),
  );
  const blocks = (language: string) =>
    [...page.matchAll(/^```(\w*)\n(.*?)^```$/gms)].flatMap(([, given, text = '']) =>
      given === language ? [text] : [],
    );
  const objectsOf = (text: string) => parseAllDocuments(text).flatMap((one) => (one.toJS() as Manifest | null) ?? []);

  before(async function () {
    installed = await InstalledChart.start(this);
    chart = installed.chart;
  });
  after(() => installed?.stop());

  it('installs the chart by values that Helm takes', async () => {
    const commands = blocks('').filter((text) => text.startsWith('helm install'));
    assert.equal(commands.length, 2);
    const rendered: Manifest[][] = [];
    for (const command of commands) {
      const values = [...command.matchAll(/--set (?:'([^']*)'|(\S+))/g)].flatMap(([, quoted, plain]) => [
        '--set',
        quoted ?? plain ?? '',
      ]);
      assert.ok(values.length >= 4, command);
      rendered.push(
        objectsOf(await ok(chart.helm(['template', 'hearth', chartFolder, '-n', 'hearth-system', ...values]))),
      );
    }
    const [kind = [], eks = []] = rendered;
    const operator = (objects: Manifest[]) => objects.find(({ kind }) => kind === 'Deployment')?.spec.template.spec;
    assert.equal(operator(kind).containers[0].image, 'local/hearth:dev');
    assert.match(
      operator(eks).containers[0].image,
      /^123456789012\.dkr\.ecr\.eu-central-1\.amazonaws\.com\/team\/hearth:/,
    );
    const account = eks.find(({ kind, metadata }) => kind === 'ServiceAccount' && metadata.name === 'hearth-agent');
    assert.equal(
      account?.metadata.annotations?.['eks.amazonaws.com/role-arn'],
      'arn:aws:iam::123456789012:role/hearth-reader',
    );
  });

  it('has objects that the API server takes', async () => {
    const manifests = blocks('yaml');
    const kinds = manifests.map((text) => objectsOf(text).map(({ kind }) => kind));
    assert.deepEqual(kinds, [['StorageCluster'], ['StorageCluster', 'Dataset', 'Deployment']]);
    for (const input of manifests) {
      const words = ['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-'];
      const said = await ok(installed.server.kubectl(words, { input }));
      assert.equal(said.match(/serverside-applied \(server dry run\)/g)?.length, objectsOf(input).length, said);
    }
  });
});
