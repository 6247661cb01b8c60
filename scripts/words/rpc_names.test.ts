import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Who knows a protocol finds what serves a call of it by its name. */
describe('the calls of the protocols', () => {
  const root = join(import.meta.dirname, '../..');
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const callsOf = (proto: string) => [...read(proto).matchAll(/^ *rpc (\w+) *\(/gm)].map(([, name = '']) => name);
  const lowered = (name: string) => `${name[0]?.toLowerCase()}${name.slice(1)}`;
  /** `served` is where a handler of each call is made: of a method of its name, or to refuse it. */
  const unserved = (proto: string, served: string) =>
    callsOf(proto).filter(
      (name) => !new RegExp(`\\.${lowered(name)}\\(|handlers\\.unsupported\\('${name}'`).test(read(served)),
    );

  it('are named as what serves them in the agent', () => {
    assert.ok(callsOf('proto/hearth/v1/control.proto').length > 25);
    assert.deepEqual(unserved('proto/hearth/v1/control.proto', 'node-agent/src/control/server.ts'), []);
  });

  it('are named as what serves them in the CSI driver', () => {
    // Group controller and snapshot metadata are services that a driver may leave out.
    const optional = /Group|^GetMetadata/;
    const missing = unserved('proto/csi/csi.proto', 'csi-driver/src/server/csi_services.ts');
    assert.deepEqual(
      missing.filter((name) => !optional.test(name)),
      [],
    );
  });
});
