import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { freePort, MiB, ok, root, start, unlessUnavailable } from '@hearth/common/testing';
import { HubServer } from '@hearth/common/testing/origins';
import { parseAllDocuments } from 'yaml';
import { bundleKubectl } from '../../cli/executables/bundle.ts';
import { makeExecutable } from '../../cli/executables/executable.ts';
import { etcdImageAs } from '../cluster/images/basic_images.ts';
import { engineImage, engineModel } from '../cluster/images/engine_image.ts';
import { hearthImageName, hearthVersion } from '../cluster/images/hearth_image.ts';
import { useOwnCluster } from './cluster_fixture.ts';
import { type PageStep, pageCommands, pageScript, pageSteps } from './page_commands.ts';

const heading = '## From an empty cluster to an engine that answers';
const longestSeconds = 300;

/**
 * The commands of the first page, as they are, on a cluster of their own that is empty. Its nodes have the images under the
 * names of the page; a server on this machine stands for the hub, as fast as a line of 100 Mbit/s.
 */
describe('the first page, from an empty cluster to an engine that answers', () => {
  const cluster = useOwnCluster('page');
  let hub: HubServer;
  let folder: string;
  let steps: PageStep[];

  before(async function () {
    this.timeout(45 * 60_000); // The first run on a machine builds the image of the engine.
    const engine = await unlessUnavailable(this, engineImage);
    const model = await unlessUnavailable(this, engineModel);
    for (const image of [engine, await etcdImageAs(chartEtcdImage())]) await cluster().importImage(image);
    const pageName = `registry.example.com/team/hearth:${hearthVersion()}`;
    for (const node of cluster().nodes) await ok(node.ctr(['images', 'tag', `docker.io/${hearthImageName}`, pageName]));
    const { repo, path, bytes } = model;
    hub = await HubServer.start(cluster().network.hostAddress, repo, { [path]: bytes }, { bytesPerSecond: 12 * MiB });
    folder = mkdtempSync(join(tmpdir(), 'hearth-page-'));
    prepare();
    await makeKubectlHearth();
  });
  after(async () => {
    await hub?.[Symbol.asyncDispose]();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  /** A checkout whose examples name the server that stands for the hub, which is in a private network. */
  function prepare(): void {
    symlinkSync(join(root, 'charts'), join(folder, 'charts'));
    cpSync(join(root, 'examples'), join(folder, 'examples'), { recursive: true });
    change('examples/engine.yaml', /^( +)repo: .*$/m, `$&\n$1endpoint: ${hub.url}`);
    const networks = `  origins: { allowedNetworks: ["${cluster().network.hostRange}"] }`;
    change('examples/storagecluster.yaml', /^spec:$/m, `$&\n${networks}`);
  }

  /** As `make kubectl-hearth` leaves it, for the platform of the page alone: nothing else of the checkout is there. */
  async function makeKubectlHearth(): Promise<void> {
    const place = join(folder, 'build/kubectl-hearth');
    mkdirSync(place, { recursive: true });
    const script = join(folder, 'kubectl-hearth.cjs');
    await bundleKubectl(script);
    await makeExecutable(script, 'linux-x64', place);
  }

  function change(file: string, pattern: RegExp, replacement: string): void {
    const before = readFileSync(join(folder, file), 'utf8');
    const after = before.replace(pattern, replacement);
    assert.notEqual(after, before, file);
    writeFileSync(join(folder, file), after);
  }

  it(`takes at most five minutes`, async function () {
    this.timeout(12 * 60_000);
    const port = String(await freePort());
    const commands = pageCommands('README.md', heading);
    // The only port of this machine that the page takes.
    const script = pageScript(commands.map((command) => command.replaceAll('8080', port)));
    const environment = {
      HOME: folder,
      KUBECONFIG: cluster().kubeconfig,
      PATH: [...cluster().programFolders, process.env.PATH].join(delimiter),
      HELM_CACHE_HOME: join(folder, 'helm'),
      HELM_CONFIG_HOME: join(folder, 'helm'),
      HELM_DATA_HOME: join(folder, 'helm'),
    };
    const shell = start('bash', ['-c', `cd '${folder}'; exec 2>&1\n${script}`], {
      environment,
      timeoutMs: 11 * 60_000,
    });
    const { code, stdout } = await shell.outcome;
    steps = pageSteps(commands, stdout);
    mkdirSync(join(root, 'build'), { recursive: true });
    const transcript = steps.map((one) => `$ ${one.command}\n${one.output}# ${one.seconds.toFixed(1)} s\n`);
    writeFileSync(join(root, 'build/first-page.txt'), transcript.join('\n'));
    assert.equal(code, 0, stdout.slice(-4000));
    for (const { command, seconds } of steps)
      console.log(`      ${seconds.toFixed(1).padStart(5)} s  ${command.split('\n')[0]}`);
    const total = steps.reduce((sum, { seconds }) => sum + seconds, 0);
    console.log(`      ${total.toFixed(1).padStart(5)} s  in all`);
    assert.ok(total <= longestSeconds, `${total} s`);
  });

  it('explains why the pod waits', () => {
    const { output } = stepOf(/^kubectl hearth explain /);
    assert.match(output, /^Pod default\/smollm-\S+: held back until its bytes are there/m);
    assert.match(output, /default\/smollm +model +(not )?ready +\S+ M?i?B +Wait/);
  });

  it('starts the engine where the bytes are, and the engine answers', async () => {
    const events = await ok(
      cluster().kubectl(['get', 'events', '-o', 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}']),
    );
    assert.match(events, /^GateWarm: the pod starts where its bytes are: node[12]/m);
    const answer = JSON.parse(steps.at(-1)?.output.match(/^\{.*\}$/m)?.[0] ?? '');
    assert.match(answer.choices[0].message.content, /Paris/);
  });

  function stepOf(pattern: RegExp): PageStep {
    const found = steps.find(({ command }) => pattern.test(command));
    assert.ok(found, String(pattern));
    return found;
  }
});

/** The image of etcd that the chart names. */
function chartEtcdImage(): string {
  const [values] = parseAllDocuments(readFileSync(join(root, 'charts/hearth/values.yaml'), 'utf8'));
  return values?.toJS().etcd.image;
}
