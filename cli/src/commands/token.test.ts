import assert from 'node:assert/strict';
import { runCommand } from '../testing/fake_terminal.ts';

describe('hearth token', () => {
  const environment = { HEARTH_SECRET: 'a secret of the cluster', HEARTH_CLUSTER: 'test' };
  const claimsOf = (token: string) => Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('latin1');

  it('prints a token of the configured cluster for the datasets, and never the secret', async () => {
    const { code, out } = await runCommand(['token', 'one', 'two', '--for', '2h'], { environment });
    assert.equal(code, 0);
    assert.match(out, /^hearth-token-1\.[\w-]+\.[\w-]{43}\n$/);
    for (const name of ['test', 'one', 'two']) assert.ok(claimsOf(out).includes(name), name);
    assert.ok(!claimsOf(out).includes(environment.HEARTH_SECRET));
  });

  it('prints JSON with the expiry', async () => {
    const { out } = await runCommand(['token', '*', '--json'], { environment });
    const { token, expiresAt, datasets } = JSON.parse(out) as { token: string; expiresAt: string; datasets: string[] };
    assert.match(token, /^hearth-token-1\./);
    assert.ok(!Number.isNaN(Date.parse(expiresAt)));
    assert.deepEqual(datasets, ['*']);
  });

  it('grants rights on volumes', async () => {
    const { out } = await runCommand(['token', 'volume:kv', '--right', 'read', 'write', 'delete'], { environment });
    const claims = Buffer.from(claimsOf(out), 'latin1');
    assert.ok(claims.includes('volume:kv'));
    // Behind the version, the cluster, the empty node, and the end (native/wire/capability.h).
    assert.equal(claims.readUInt32LE(1 + 2 + 'test'.length + 2 + 8), 0b11001);
  });

  it('refuses an excessive lifetime, and a missing secret', async () => {
    assert.notEqual((await runCommand(['token', 'one', '--for', '90d'], { environment })).code, 0);
    assert.notEqual((await runCommand(['token', 'one'], { environment: {} })).code, 0);
  });
});
