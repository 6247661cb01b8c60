import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { needsPrograms, ok, root, run, skip, tools } from '@hearth/common/testing';
import {
  type Manifest,
  podSpecs,
  releaseNamespace,
  startApiServer,
  type TestApiServer,
} from '@hearth/common/testing/kubernetes';
import { hearthVersion } from '../cluster/images/hearth_image.ts';
import { TestRegistry, withLogins } from '../cluster/testing/registry.ts';

const [user, password] = ['installer', 'a-password'];

/** The blocks of commands of docs/install.md up to a line of it, as they stand there; those with output are left out. */
function commandsUntil(line: string): string[] {
  const [text = '', rest] = readFileSync(join(root, 'docs/install.md'), 'utf8').split(`\n${line}\n`);
  assert.ok(rest, `docs/install.md has a line "${line}"`);
  const blocks = [...text.matchAll(/^```\n(.*?)^```$/gms)].map(([, block = '']) => block);
  return blocks.filter((block) => !/^(\$|Error)/.test(block));
}

/** pull_secrets.test.ts has nodes pull an image that was pushed so; every other journey runs the image. */
describe('the commands of docs/install.md, as they are', () => {
  let registry: TestRegistry;
  let server: TestApiServer;
  let folder: string;
  let path: string;

  before(async function () {
    if (process.getuid?.() !== 0) skip(this, 'images need root');
    if ((await run('buildah', ['--version'])).code !== 0) skip(this, 'buildah is not installed');
    const programs = await needsPrograms(this, () => tools(['helm', 'kubectl']));
    path = [...Object.values(programs).map((one) => dirname(one as string)), process.env.PATH].join(delimiter);
    this.timeout(45 * 60_000); // The first run on a machine builds the image.
    folder = mkdtempSync(join(tmpdir(), 'hearth-install-'));
    registry = await TestRegistry.start(user, password);
    server = await startApiServer(this);
  });
  after(async () => {
    await server?.stop();
    await registry?.[Symbol.asyncDispose]();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  it('push the image and install the chart, whose pods name it and the secret for it', async function () {
    this.timeout(45 * 60_000);
    const [labelled, install, credentials, ...more] = commandsUntil('## 2. A cluster of caches').map((block) =>
      block
        .replaceAll('registry.example.com', registry.host)
        .replace('=USER', `=${user}`)
        .replace('=PASSWORD', `=${password}`),
    );
    assert.deepEqual(more, [], 'there are no other commands');
    const [image, helm] = install?.split(/^(?=helm )/m) ?? [];
    assert.match(image ?? '', /^make image REGISTRY=/);
    // The dots stand for what is said above them.
    const whole = credentials?.replace('helm install ...', `${helm?.trimEnd()} `);
    assert.notEqual(whole, credentials);
    // The registry of the test speaks no TLS. The flags of a `make` around this test are not for the one of the page.
    const environment = { PATH: path, KUBECONFIG: server.kubeconfig, REGISTRY_PLAIN: '1', MAKEFLAGS: '' };
    const script = ['-ec', [`cd '${root}'\n`, labelled, image, whole].join('')];
    const said = await withLogins(join(folder, 'auth.json'), registry.login, () =>
      ok(run('sh', script, { environment, timeoutMs: 40 * 60_000 })),
    );
    const name = `team/hearth:${hearthVersion()}`;
    assert.ok(said.includes(`Pushed ${registry.host}/${name}; `), said);
    assert.ok(registry.manifests.has(name), [...registry.manifests.keys()].join());

    const read = async (...words: string[]) =>
      JSON.parse(await ok(server.kubectl(['-n', releaseNamespace, 'get', ...words, '-o', 'json'])));
    const pods = podSpecs((await read('deployments,daemonsets')).items as Manifest[]);
    assert.deepEqual([...pods.keys()].sort(), ['DaemonSet hearth-csi-node', 'Deployment hearth-operator']);
    for (const [object, { containers, imagePullSecrets }] of pods) {
      for (const { image: named } of containers) assert.equal(named, `${registry.host}/${name}`, object);
      assert.deepEqual(imagePullSecrets, [{ name: 'pull' }], object);
    }
    const secret = (await read('secret', 'pull')).data['.dockerconfigjson'];
    const { auths } = JSON.parse(Buffer.from(secret, 'base64').toString());
    assert.equal(auths[registry.host].auth, registry.login[registry.host]?.auth);
    const { labels } = (await read('namespace', releaseNamespace)).metadata;
    assert.equal(labels['pod-security.kubernetes.io/enforce'], 'privileged');
  });
});
