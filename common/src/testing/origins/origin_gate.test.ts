import assert from 'node:assert/strict';
import { OriginGate } from './origin_gate.ts';
import { type ScriptedServer, sendFile, startServer } from './scripted_server.ts';

describe('a gate before an origin', () => {
  const body = Buffer.alloc(300_000, 'x');
  let server: ScriptedServer;
  let gate: OriginGate;
  beforeEach(async () => {
    server = await startServer();
    server.handler = (request, response) => sendFile(request, response, body);
    gate = await OriginGate.start(server.url);
  });
  afterEach(async () => {
    await gate.close();
    await server.stop();
  });

  const read = async () => Buffer.from(await (await fetch(`${gate.url}/file`)).arrayBuffer());

  it('lets answers pass, refuses when closed, and is opened again at the same place', async () => {
    const { url } = gate;
    assert.ok((await read()).equals(body));
    await gate.close();
    await assert.rejects(read());
    await gate.open();
    assert.equal(gate.url, url);
    assert.ok((await read()).equals(body));
  });

  it('breaks off answers that are under way', async () => {
    gate.bytesPerSecond = 1000;
    const { body: stream } = await fetch(`${gate.url}/file`);
    const reader = stream?.getReader();
    await reader?.read();
    await gate.close();
    await assert.rejects(async () => {
      for (;;) if ((await reader?.read())?.done !== false) return;
    });
  });

  it('slows answers down', async () => {
    gate.bytesPerSecond = 1_000_000;
    const begun = performance.now();
    assert.ok((await read()).equals(body));
    // The last piece is not waited for.
    assert.ok(performance.now() - begun > 100);
  });
});
