import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { TemporaryFolder } from '@hearth/common/testing';
import { makeToken, tokenId } from '@hearth/node-agent/token';
import { FakeAgent } from '../testing/fake_agent.ts';
import { runCommand } from '../testing/fake_terminal.ts';

describe('hearth revocation', () => {
  const namespace = { kind: 'namespace', name: 'team', revokedAt: '2026-11-28T00:00:00.000Z' };
  const folder = new TemporaryFolder('token');
  let agent: FakeAgent;
  const hearth = (words: string[]) => runCommand(['--socket', agent.socket, 'revocation', ...words]);
  beforeEach(async () => {
    agent = await FakeAgent.start({
      revokeTokens: () => ({}),
      permitTokens: () => ({}),
      listRevocations: () => ({ revocations: [namespace] }),
    });
  });
  afterEach(() => agent.stop());
  after(() => folder.remove());

  it('revokes the tokens of a pod and of a namespace, and permits them again', async () => {
    assert.match((await hearth(['add', '--pod', 'team/a-uid'])).out, /^Revoked pod team\/a-uid\n/);
    assert.match((await hearth(['rm', '--namespace', 'team'])).out, /^Permitted namespace team\n/);
    assert.deepEqual(agent.requests, [
      ['revokeTokens', { kind: 'pod', name: 'team/a-uid' }],
      ['permitTokens', { kind: 'namespace', name: 'team' }],
    ]);
  });

  it('revokes the token of a file by its id, and never shows the token', async () => {
    const claims = { cluster: 'c', node: '', expiresAt: 1, rights: ['read'] as const, datasets: ['one'] };
    const token = makeToken(claims, Buffer.from('a secret of the cluster'));
    writeFileSync(folder.file('token'), `${token}\n`);
    const { out } = await hearth(['add', '--token-file', folder.file('token')]);
    assert.equal(out.includes(token), false);
    assert.deepEqual(agent.requests, [['revokeTokens', { kind: 'token', name: tokenId(token) }]]);
  });

  it('lists revocations', async () => {
    assert.match((await hearth(['ls'])).out, /namespace +team +2026/);
    assert.deepEqual(JSON.parse((await hearth(['ls', '--json'])).out), { revocations: [namespace] });
  });

  it('refuses to revoke nothing, two targets and a file without a token', async () => {
    writeFileSync(folder.file('none'), 'no token');
    for (const words of [
      ['add'],
      ['add', '--pod', 'team/a', '--namespace', 'team'],
      ['add', '--token-file', folder.file('none')],
      ['add', '--token-file', folder.file('absent')],
    ]) {
      assert.notEqual((await hearth(words)).code, 0, words.join(' '));
    }
    assert.deepEqual(agent.requests, []);
  });
});
