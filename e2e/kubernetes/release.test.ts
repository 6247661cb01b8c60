import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { must, needsPrograms, ok, run, sha256, skip, TemporaryFolder, tools } from '@hearth/common/testing';
import {
  chartFolder,
  flags,
  releaseNamespace,
  someRegistry,
  startApiServer,
  type TestApiServer,
} from '@hearth/common/testing/kubernetes';
import { parseAllDocuments } from 'yaml';
import { writeImage } from '../cluster/images/archive.ts';
import type { Architecture } from '../cluster/images/buildah.ts';
import { hearthVersion } from '../cluster/images/hearth_image.ts';
import { joinPlatforms, readBlob, readIndex } from '../cluster/images/oci_layout.ts';
import { copyImage } from '../cluster/images/release_image.ts';
import { Distribution } from '../cluster/testing/distribution.ts';
import { type Published, publish } from '../release/publish.ts';

const architectures: Architecture[] = ['amd64', 'arm64'];

const objectsOf = (text: string) =>
  parseAllDocuments(text)
    .map((document) => JSON.stringify(document.toJS()))
    .sort();

/** The chart is the real one; small images of two processors stand for those that take an hour to build. */
describe('a release that is pushed to a registry', () => {
  const version = hearthVersion();
  let folder: TemporaryFolder;
  let registry: Distribution;
  let server: TestApiServer;
  let helms: string[];
  let layout: string;
  let chart: string;
  let published: Published;

  before(async function () {
    if ((await run('skopeo', ['--version'])).code !== 0)
      skip(this, 'skopeo is not installed; `make setup` installs it');
    const { helm, helm3 } = await needsPrograms(this, () => tools(['helm', 'helm3']));
    helms = [helm3, helm];
    registry = await needsPrograms(this, () => Distribution.start());
    server = await startApiServer(this);
    folder = new TemporaryFolder('release');
    layout = folder.file('image');
    for (const architecture of architectures) {
      const archive = folder.file(`${architecture}.tar`);
      const programs = { 'bin/true': '/bin/true' };
      await writeImage(archive, { name: 'local/small:dev', programs, entrypoint: ['/bin/true'], architecture });
      await copyImage(`docker-archive:${archive}`, `oci:${layout}:${architecture}`);
    }
    joinPlatforms(layout, version);
    await must(helm, 'package', chartFolder, '--destination', folder.path);
    chart = folder.file(`hearth-${version}.tgz`);
    published = await publish({ layout, chart, version }, { registry: `${registry.host}/team`, plain: true, helm });
  });
  after(async () => {
    await server?.stop();
    await registry?.[Symbol.asyncDispose]();
    await folder?.remove();
  });

  it('gives each processor its image, with the digests that it had', async () => {
    const [, digest = ''] = published.image.split('@');
    assert.equal(digest, readIndex(layout).manifests[0]?.digest);
    const pulled = folder.file('pulled');
    const image = `${registry.host}/team/hearth`;
    await copyImage(`docker://${image}@${digest}`, `oci:${pulled}:all`, '--all', '--src-tls-verify=false');
    assert.equal(readIndex(pulled).manifests[0]?.digest, digest);
    const { manifests } = readBlob(pulled, digest);
    assert.deepEqual(manifests, readBlob(layout, digest).manifests);
    for (const architecture of architectures) {
      const choice = [`--override-arch=${architecture}`, '--src-tls-verify=false'];
      const alone = folder.file(`pulled-${architecture}`);
      await copyImage(`docker://${image}:${version}`, `oci:${alone}:one`, ...choice);
      const [one] = readIndex(alone).manifests;
      const config = readBlob(alone, readBlob(alone, one?.digest ?? '').config.digest);
      assert.equal(config.architecture, architecture);
    }
  });

  it('gives Helm 3 and Helm 4 the chart that was packed', async () => {
    const [place = '', digest = ''] = published.chart.replace(`:${version}@`, '@').split('@');
    const packed = sha256(readFileSync(chart));
    for (const [index, helm] of helms.entries()) {
      assert.match(await must(helm, 'version', '--short'), new RegExp(`^v${index + 3}\\.`));
      const target = folder.file(`helm-${index}`);
      const words = ['pull', place, '--version', version, '--plain-http', '--untar=false', '--destination', target];
      await must('mkdir', target);
      const { stdout, stderr } = await run(helm, words);
      assert.ok((stdout + stderr).includes(digest), stdout + stderr);
      assert.equal(sha256(readFileSync(join(target, `hearth-${version}.tgz`))), packed);
    }
  });

  it('is what both Helms render and would install from the registry', async () => {
    const place = [`oci://${registry.host}/team/charts/hearth`, '--version', version, '--plain-http'];
    const values = flags(someRegistry);
    const rendered: string[] = [];
    for (const helm of helms) {
      const words = ['hearth', ...place, '-n', releaseNamespace, ...values];
      const local = await must(helm, 'template', 'hearth', chartFolder, '-n', releaseNamespace, ...values);
      rendered.push(await must(helm, 'template', ...words));
      assert.equal(rendered.at(-1), local);
      const environment = { KUBECONFIG: server.kubeconfig };
      const said = await ok(
        run(helm, ['install', ...words, '--create-namespace', '--dry-run=server'], { environment }),
      );
      assert.match(said, /^STATUS: pending-install$/m);
      assert.match(said, new RegExp(`Hearth ${version.replaceAll('.', '\\.')} is installed`));
      assert.ok(said.includes(`registry.example.com/team/hearth:${version}`), said);
    }
    // They write objects of one kind in other orders.
    assert.deepEqual(...(rendered.map(objectsOf) as [unknown, unknown]));
  });
});
