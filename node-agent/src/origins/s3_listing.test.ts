import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { OddS3, type S3Oddities } from '@hearth/common/testing/origins';
import { ReadingProof } from '../datasets/reading_proof.ts';
import { createOrigin } from './create_origin.ts';
import type { ManifestRow, Origin } from './origin.ts';
import { S3Keys } from './s3_keys.ts';
import { parseSource } from './source.ts';
import { listAll } from './testing/list_all.ts';

const credentials = { accessKeyId: 'AKEXAMPLE', secretAccessKey: 'very-secret' };
const encoded = (key: string) => encodeURIComponent(key).replaceAll('%2F', '/').replaceAll('%20', '+');

describe('listings of S3', () => {
  const opened: Origin[] = [];
  let server: OddS3;
  afterEach(async () => {
    for (const origin of opened.splice(0)) origin.close();
    await server[Symbol.asyncDispose]();
  });

  async function open(names: string[], oddities: S3Oddities, signed = false): Promise<Origin> {
    const objects = Object.fromEntries(names.map((name) => [name, Buffer.from(name.endsWith('/') ? '' : name)]));
    server = await OddS3.start(objects, oddities);
    return another(signed);
  }

  /** As another agent reads what was listed. */
  function another(signed: boolean): Origin {
    const origin = createOrigin(
      { ...parseSource(server.source), allowPrivate: true },
      { attempts: 2, pauseMs: 1, environment: {}, nodeIdentity: false, ...(signed ? { credentials } : {}) },
    );
    opened.push(origin);
    return origin;
  }

  /** The paths of a dataset whose every file can be read. */
  async function readable(origin: Origin): Promise<string[]> {
    const rows = await listAll(origin);
    for (const row of rows) await read(origin, row);
    return rows.map(({ path }) => path);
  }

  async function read(origin: Origin, row: ManifestRow): Promise<void> {
    if (row.kind !== 'file') return;
    const proof = new ReadingProof(origin);
    proof.note([row]);
    await proof.read(AbortSignal.timeout(60_000));
  }

  const odd = ['100%.csv', 'a b.txt', 'a%20b.txt', 'a+b.txt', 'é.txt'];

  it('have the keys of servers that encode them, with either sign for a space', async () => {
    assert.deepEqual(await readable(await open(odd, { listedKey: encoded })), odd);
    await server[Symbol.asyncDispose]();
    assert.deepEqual(await readable(await open(odd, { listedKey: (key) => encoded(key).replaceAll('+', '%20') })), odd);
  });

  it('have the keys of servers that announce an encoding and do not encode', async () => {
    const lying = { listedKey: (key: string) => key };
    assert.deepEqual(await readable(await open(odd, lying)), odd);
    // Nothing but a request tells these.
    for (const names of [['a%20b.txt', 'c+d.txt'], ['a%FFb.txt'], ['b+c.txt']]) {
      await server[Symbol.asyncDispose]();
      assert.deepEqual(await readable(await open(names, lying)), names);
    }
  });

  it('name the mistake of a server that encodes keys in a way of its own', async () => {
    const origin = await open(['a b.txt'], { listedKey: () => 'a%2520b.txt' });
    await assert.rejects(listAll(origin), {
      code: 'ProtocolError',
      message: /announces percent-encoded keys, lists "a%2520b\.txt" and has no such object/,
    });
    const keys = new S3Keys('host', async () => true);
    await keys.decode([{ key: 'a%20b', size: 1n }], 'url');
    await assert.rejects(keys.decode([{ key: 'a b', size: 1n }], 'url'), { code: 'ProtocolError' });
    const binary = new S3Keys('host', async () => undefined);
    await assert.rejects(binary.decode([{ key: 'a%FF', size: 1n }], 'url'), { code: 'InvalidArgument' });
  });

  it('have a file that is listed twice once, with a warning', async () => {
    const twice = (keys: string[]) => keys.flatMap((key) => (key === 'marker/b' ? [key, key] : [key]));
    const origin = await open(['marker/', 'marker/a', 'marker/b', 'z'], { listed: twice });
    assert.deepEqual(await readable(origin), ['marker', 'marker/a', 'marker/b', 'z']);
    assert.deepEqual(origin.revision().warnings, [
      `RepeatedRows: ${new URL(server.url).host} listed 1 objects twice (the first is marker/b); each is one file`,
    ]);
  });

  it('are refused by name when they give two states of a file', async () => {
    const listed = (keys: string[]) => keys.flatMap((key) => [key, key]);
    const listedSize = (key: string, occurrence: number) => (key === 'b' && occurrence === 1 ? 9 : undefined);
    await assert.rejects(listAll(await open(['a', 'b'], { listed, listedSize })), {
      code: 'ProtocolError',
      message: /lists b twice, with 1 bytes and ETag .* and with 9 bytes and ETag/,
    });
  });

  it('are read with the time of the server, also by agents that did not list it', async () => {
    for (const minutes of [20, -600]) {
      const origin = await open(['a'], { clockAheadMs: minutes * 60_000 }, true);
      const [row] = await listAll(origin);
      assert.ok(row !== undefined);
      await read(origin, row);
      await read(another(true), row);
      const side = minutes > 0 ? '20 minutes behind' : '600 minutes ahead of';
      assert.match(origin.revision().warnings.join(), new RegExp(`^ClockSkew: the clock .* is ${side} that of 127`));
      await server[Symbol.asyncDispose]();
    }
    const origin = await open(['a'], { clockAheadMs: 60_000 }, true);
    await listAll(origin);
    assert.deepEqual(origin.revision().warnings, []);
  });

  it('blame the clock, and not the token, for a signature of another time', async () => {
    const origin = await open(['a'], { clockAheadMs: 1_200_000 }, true);
    const [{ url = '' } = {}] = await another(false).locate(
      [{ index: 0, path: 'a', contentKey: '', validator: '' }],
      AbortSignal.timeout(60_000),
    );
    const late = `${url}?X-Amz-Date=20200101T000000Z`;
    const client = createOrigin(
      { ...parseSource(late), allowPrivate: true },
      { attempts: 1, pauseMs: 1, environment: {} },
    );
    opened.push(client);
    await assert.rejects(listAll(client), (error: unknown) => {
      const { code, message } = HearthError.from(error);
      assert.equal(code, 'Unavailable');
      assert.match(message, /the clocks of the server and of this machine differ .*NTP/);
      assert.doesNotMatch(message, /token|rights|credentials/);
      return true;
    });
    origin.close();
  });
});
