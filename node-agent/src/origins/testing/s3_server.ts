import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '@hearth/common/testing';
import type { S3Credentials } from '../origin.ts';

/** A real S3 server (versitygw) over a temporary folder, with credentials made for this run. */
export interface S3Server {
  endpoint: string;
  credentials: S3Credentials;
  stop(): Promise<void>;
}

/** `host`: the address at which it listens; loopback if it is not given. */
export async function startS3Server(program: string, host = '127.0.0.1'): Promise<S3Server> {
  const folder = mkdtempSync(join(tmpdir(), 'hearth-s3-'));
  const data = join(folder, 'data');
  const versions = join(folder, 'versions');
  mkdirSync(data);
  mkdirSync(versions);
  const credentials = {
    accessKeyId: `AK${randomBytes(8).toString('hex')}`,
    secretAccessKey: randomBytes(20).toString('hex'),
  };
  const port = await freePort(host);
  const child = spawn(program, ['--port', `${host}:${port}`, '--quiet', 'posix', '--versioning-dir', versions, data], {
    env: {
      PATH: process.env.PATH ?? '',
      ROOT_ACCESS_KEY: credentials.accessKeyId,
      ROOT_SECRET_KEY: credentials.secretAccessKey,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let output = '';
  child.stderr?.on('data', (text) => {
    output += text;
  });
  const endpoint = `http://${host}:${port}`;
  const stop = async () => {
    await ended(child);
    rmSync(folder, { recursive: true, force: true });
  };
  for (let tries = 0; tries < 100; tries++) {
    const answers = await fetch(endpoint, { signal: AbortSignal.timeout(1000) }).then(
      () => true,
      () => false,
    );
    if (answers) return { endpoint, credentials, stop };
    if (child.exitCode !== null) break;
    await sleep(50);
  }
  await stop();
  throw new Error(`the S3 server did not start: ${output}`);
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await exit;
}
