import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';
import { nodeVersion } from './base_images.ts';

describe('Dockerfile', () => {
  const text = readFileSync(join(root, 'Dockerfile'), 'utf8');
  const ignored = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n');

  it('starts from the Node that package.json pins', () => {
    assert.equal(/^ARG NODE_VERSION=(.*)$/m.exec(text)?.[1], nodeVersion());
  });

  it('holds every workspace, with its packages', () => {
    const { workspaces } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { workspaces: string[] };
    for (const workspace of workspaces) {
      assert.ok(text.includes(`\nCOPY ${workspace}/package.json ${workspace}/\n`), `package.json of ${workspace}`);
      assert.ok(text.includes(`\nCOPY ${workspace} ${workspace}\n`), `sources of ${workspace}`);
      assert.ok(ignored.includes(`!${workspace.split('/')[0]}`), `.dockerignore keeps ${workspace} out`);
    }
  });
});
