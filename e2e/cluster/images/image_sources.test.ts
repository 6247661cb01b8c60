import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { must } from '@hearth/common/testing';
import { ImageSources } from './image_sources.ts';

describe('the sources of the image', () => {
  let folder: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-sources-'));
    for (const path of ['Dockerfile', 'native/a.cc', 'operator/bin/program', 'operator/a.test.ts', 'docs/a'])
      write(path);
    chmodSync(join(folder, 'root/operator/bin/program'), 0o755);
    await must('git', '-C', join(folder, 'root'), 'init', '--quiet');
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const write = (path: string, text = path) => {
    mkdirSync(dirname(join(folder, 'root', path)), { recursive: true });
    writeFileSync(join(folder, 'root', path), text);
  };
  const copy = () => ImageSources.copy(join(folder, 'root'), join(folder, 'copy'));

  it('stay as their digest names them when the working tree is changed while they are built', async () => {
    using before = await copy();
    write('native/a.cc', 'changed');
    assert.equal(readFileSync(join(before.folder, 'native/a.cc'), 'utf8'), 'native/a.cc');
    using after = await copy();
    assert.notEqual(after.digest, before.digest);
    write('native/a.cc');
    assert.equal((await copy()).digest, before.digest);
  });

  it('are what the Dockerfile may copy, with the modes that it has, and go when they were built', async () => {
    {
      using sources = await copy();
      for (const path of ['Dockerfile', 'native/a.cc']) assert.ok(existsSync(join(sources.folder, path)), path);
      for (const path of ['operator/a.test.ts', 'docs']) assert.ok(!existsSync(join(sources.folder, path)), path);
      assert.equal(statSync(join(sources.folder, 'operator/bin/program')).mode & 0o777, 0o755);
    }
    assert.ok(!existsSync(join(folder, 'copy')));
  });
});
