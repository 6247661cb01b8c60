import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run, skip } from '@hearth/common/testing';
import { TestRegistry, withLogins } from '../testing/registry.ts';
import { writeImage } from './archive.ts';
import { Buildah } from './buildah.ts';

describe('an image that is pushed', () => {
  let folder: string;
  before(async function () {
    if (process.getuid?.() !== 0) skip(this, 'buildah needs root');
    if ((await run('buildah', ['--version'])).code !== 0) skip(this, 'buildah is not installed');
    folder = mkdtempSync(join(tmpdir(), 'hearth-push-'));
  });
  after(() => folder && rmSync(folder, { recursive: true, force: true }));

  it('is in the registry by its name, whole, for who may enter it', async () => {
    await using registry = await TestRegistry.start('pusher', 'a password');
    const archive = join(folder, 'small.tar');
    await writeImage(archive, {
      name: 'local/small:dev',
      programs: { 'bin/true': '/bin/true' },
      entrypoint: ['/bin/true'],
    });
    const store = new Buildah(join(folder, 'store'));
    const name = `${registry.host}/team/small:1.2.3`;
    const push = () => store.publish(archive, name, { plain: true });
    const logins = join(folder, 'auth.json');
    await assert.rejects(withLogins(logins, {}, push), /buildah push: .*(401|authentication)/s);
    await withLogins(logins, registry.login, push);
    const manifest = registry.manifests.get('team/small:1.2.3');
    assert.ok(manifest, [...registry.manifests.keys()].join());
    const { config, layers } = JSON.parse(manifest.bytes.toString());
    assert.equal(layers.length, 1);
    for (const { digest } of [config, ...layers]) assert.ok(registry.blobs.has(digest), digest);
    const told = JSON.parse(registry.blobs.get(config.digest)?.toString() ?? '{}');
    assert.deepEqual(told.config.Entrypoint, ['/bin/true']);
  });
});
