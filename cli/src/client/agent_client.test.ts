import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { until } from '@hearth/common/testing';
import { FakeAgent } from '../testing/fake_agent.ts';
import { runCommand } from '../testing/fake_terminal.ts';
import { fromServiceError, fromSocketError } from './call_error.ts';

describe('AgentClient', () => {
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'hearth-cli-'));
  });
  after(() => rm(directory, { recursive: true }));

  it('tells how to start a missing agent', async () => {
    const path = join(directory, 'absent.sock');
    const outcome = await runCommand(['mounts', '--socket', path]);
    assert.equal(outcome.code, 6);
    assert.equal(
      outcome.err,
      `hearth: no agent listens on ${path}; start one with \`hearth agent\`, or name another socket by --socket or HEARTH_SOCKET\n`,
    );
  });

  it('takes the socket from the environment', async () => {
    const outcome = await runCommand(['mounts'], { environment: { HEARTH_SOCKET: join(directory, 'other.sock') } });
    assert.match(outcome.err, /no agent listens on .*other\.sock/);
  });

  it('reports a path that is no socket or too long', async () => {
    const path = join(directory, 'file');
    await writeFile(path, '');
    assert.equal((await runCommand(['mounts', '--socket', path])).code, 6);
    const long = await runCommand(['mounts', '--socket', `/${'x'.repeat(120)}`]);
    assert.equal(long.code, 2);
    assert.match(long.err, /longer than 107 bytes/);
  });

  it('reports who may open the socket', () => {
    const error = fromSocketError('EACCES', '/run/hearth/agent.sock');
    assert.equal(error.code, 'PermissionDenied');
    assert.match(error.message, /this user may not open the agent's socket .*; run the command as the agent's user/);
  });

  it('gives up at the deadline', async () => {
    const agent = await FakeAgent.start({ listMounts: () => new Promise(() => undefined) });
    try {
      const outcome = await runCommand(['mounts', '--socket', agent.socket, '--timeout', '1']);
      assert.equal(outcome.code, 7);
      assert.match(outcome.err, /did not answer within 1 s; .*--timeout/);
    } finally {
      await agent.stop();
    }
  });

  it('exits silently with 130 when interrupted', async () => {
    const agent = await FakeAgent.start({ listMounts: () => new Promise(() => undefined) });
    const controller = new AbortController();
    try {
      const running = runCommand(['mounts', '--socket', agent.socket], { interrupt: controller.signal });
      await until('it asks', () => agent.requests.length > 0);
      controller.abort();
      assert.deepEqual(await running, { code: 130, out: '', err: '' });
    } finally {
      await agent.stop();
    }
  });

  it('reports calls that an older agent does not implement', async () => {
    const agent = await FakeAgent.start({});
    try {
      const outcome = await runCommand(['mounts', '--socket', agent.socket]);
      assert.equal(outcome.code, 13);
      assert.match(outcome.err, /may be older than this command/);
    } finally {
      await agent.stop();
    }
  });

  it('reports the API difference of an agent that does not implement a call', async () => {
    const status = { cluster: 'c', node: 'n1', nodes: [{ node: 'n1', version: '0.0.9' }] };
    const agent = await FakeAgent.start({ getStatus: () => GetStatusResponse.fromPartial(status) });
    try {
      for (const words of [['mounts'], ['ls', 'd']]) {
        const outcome = await runCommand([...words, '--socket', agent.socket]);
        assert.equal(outcome.code, 13);
        assert.match(
          outcome.err,
          /may be older .*: the agent on n1 \(release 0\.0\.9\) speaks version 0 of the control API, this command version 1: .* is off; upgrade the agent\n$/,
        );
      }
    } finally {
      await agent.stop();
    }
  });

  it('detects another service on the socket', async () => {
    const path = join(directory, 'http.sock');
    const server = createServer((socket) =>
      socket.end('HTTP/1.0 400 Bad Request\r\n\r\n').on('error', () => undefined),
    );
    await new Promise<void>((resolve) => server.listen(path, resolve));
    try {
      const outcome = await runCommand(['mounts', '--socket', path, '--timeout', '3']);
      assert.ok([6, 7].includes(outcome.code), outcome.err);
      assert.match(outcome.err, /^hearth: the agent /);
    } finally {
      server.close();
    }
  });

  it('passes a HearthError through', () => {
    const error = new HearthError('InUse', 'busy');
    const subject = { socket: '/s', timeoutMilliseconds: 1, signal: new AbortController().signal };
    assert.equal(fromServiceError(error, subject), error);
  });
});
