import assert from 'node:assert/strict';
import { OddS3, type S3Oddities } from '@hearth/common/testing/origins';
import { ReadingProof } from '../datasets/reading_proof.ts';
import { s3DatedKey, s3EtagKey } from './content_key.ts';
import { createOrigin } from './create_origin.ts';
import type { ManifestRow, Origin } from './origin.ts';
import { parseSource } from './source.ts';
import { listAll } from './testing/list_all.ts';

const objects = {
  'a.bin': Buffer.alloc(10_000, 'a'),
  'b.bin': Buffer.alloc(5_000, 'b'),
  'c.txt': Buffer.from('hello, world\n'),
  empty: Buffer.alloc(0),
};
const listedDate = 'Fri, 02 Jan 2026 03:04:05 GMT';
/** MD5 of c.txt. */
const tagOfC = '22c3683b094136c3398391ae71b20f04';
const ofMultipart = (tag: string) => `${tag}-2`;

describe('S3 validators', () => {
  const opened: Origin[] = [];
  let server: OddS3;
  afterEach(async () => {
    for (const origin of opened.splice(0)) origin.close();
    await server[Symbol.asyncDispose]();
  });

  async function open(oddities: S3Oddities, allowWeakValidators = false): Promise<Origin> {
    server = await OddS3.start(objects, oddities);
    const source = { ...parseSource(server.source), allowPrivate: true, allowWeakValidators };
    const origin = createOrigin(source, { attempts: 1, pauseMs: 1, environment: {}, nodeIdentity: false });
    opened.push(origin);
    return origin;
  }

  /** The rows of a dataset, each read once as the engine reads it. */
  async function readable(origin: Origin): Promise<Map<string, ManifestRow>> {
    const rows = await listAll(origin);
    const proof = new ReadingProof(origin);
    proof.note(rows);
    await proof.read(AbortSignal.timeout(60_000));
    assert.equal(rows.length, 4);
    return new Map(rows.map((row) => [row.path, row]));
  }

  const urlOf = (key: string) => `${server.url}/bench/${key}`;

  it("uses the listing's ETags where GET returns the same for one object of each kind", async () => {
    const rows = await readable(await open({}));
    assert.equal(rows.get('c.txt')?.validator, `etag:"${tagOfC}"`);
    assert.equal(rows.get('c.txt')?.contentKey, s3EtagKey(urlOf('c.txt'), `"${tagOfC}"`));
    assert.equal(server.objectRequests, 1 + 2, 'one to see, and two to prove');
  });

  it('checks each storage class, and multipart objects, separately', async () => {
    const storageClass = (key: string) => (key === 'b.bin' ? 'REDUCED_REDUNDANCY' : 'STANDARD');
    await listAll(await open({ storageClass }));
    assert.equal(server.objectRequests, 2);
  });

  it('adds quotes to listed ETags without them', async () => {
    const rows = await readable(await open({ listedEtag: (tag) => tag }));
    assert.equal(rows.get('c.txt')?.validator, `etag:"${tagOfC}"`);
  });

  it('adds quotes to served ETags without them, and compares', async () => {
    const rows = await readable(await open({ servedEtag: (tag) => tag }));
    assert.equal(rows.get('c.txt')?.validator, `compared-etag:"${tagOfC}"`);
  });

  it('sends no If-Match to a server that answers 412 to its own ETag', async () => {
    const origin = await open({ listedEtag: (tag) => tag, matches: (condition) => !condition.startsWith('"') });
    const rows = await readable(origin);
    assert.equal(rows.get('c.txt')?.validator, `compared-etag:"${tagOfC}"`);
    assert.equal(rows.get('c.txt')?.contentKey, s3EtagKey(urlOf('c.txt'), `"${tagOfC}"`));
    assert.deepEqual(origin.revision().warnings, []);
  });

  it('uses the ETag of GET where it is stable and differs from the listing', async () => {
    for (const listedEtag of [(tag: string) => `"${tag}"`, () => undefined, (tag: string) => `W/"${tag}"`]) {
      const rows = await readable(await open({ listedEtag, servedEtag: (tag) => `"own-${tag}"` }));
      assert.equal(rows.get('c.txt')?.validator, `compared-etag:"own-${tagOfC}"`);
      assert.equal(rows.get('c.txt')?.contentKey, s3EtagKey(urlOf('c.txt'), `"own-${tagOfC}"`));
      await server[Symbol.asyncDispose]();
    }
    await open({});
  });

  it('refuses objects without an ETag, or uses their date where allowed', async () => {
    const refused = {
      code: 'InvalidArgument',
      message: /^WeakValidator: a\.bin .*lists ETags and sends none with the/,
    };
    await assert.rejects(readable(await open({ servedEtag: () => undefined })), refused);
    await server[Symbol.asyncDispose]();
    const origin = await open({ servedEtag: () => undefined, matches: () => true }, true);
    const rows = await readable(origin);
    assert.equal(rows.get('c.txt')?.validator, `modified:${listedDate}`);
    assert.equal(rows.get('c.txt')?.contentKey, s3DatedKey(urlOf('c.txt'), listedDate, 13n));
    assert.match(origin.revision().warnings.join(), /^WeakValidator: 3 files/);
  });

  it("requests each object's date where the listing has another one", async () => {
    const lastModified = 'Sat, 03 Jan 2026 00:00:00 GMT';
    const rows = await readable(await open({ servedEtag: () => undefined, lastModified }, true));
    assert.equal(rows.get('c.txt')?.validator, `modified:${lastModified}`);
  });

  it('refuses objects without any validator, whatever is allowed', async () => {
    let asked = 0;
    const cases: [S3Oddities, RegExp][] = [
      [{ servedEtag: () => undefined, lastModified: undefined }, /^a\.bin has no usable validator: .*sends none/],
      [{ servedEtag: () => `"${asked++}"`, lastModified: undefined }, /another ETag for each request/],
    ];
    for (const [oddities, message] of cases) {
      await assert.rejects(readable(await open(oddities, true)), { code: 'InvalidArgument', message });
      await server[Symbol.asyncDispose]();
    }
    await open({});
  });

  it('refuses objects whose size differs from the listing', async () => {
    for (const served of [
      (listed: Buffer) => listed.subarray(1),
      (listed: Buffer) => Buffer.concat([listed, listed]),
    ]) {
      await assert.rejects(readable(await open({ served })), {
        code: 'OriginChanged',
        message: /lists a\.bin with 10000 bytes and serves \d+;/,
      });
      await server[Symbol.asyncDispose]();
    }
    await open({});
  });

  it('proves each dataset by reading, also for an object that differs from its kind', async () => {
    // The first object of its kind works, another one does not.
    const servedEtag = (tag: string, key: string) => (key === 'c.txt' ? undefined : `"${tag}"`);
    const listedEtag = (tag: string) => `"${ofMultipart(tag)}"`;
    const origin = await open({ listedEtag, servedEtag: (tag, key) => servedEtag(ofMultipart(tag), key) });
    await assert.rejects(readable(origin), { code: 'OriginChanged', message: /c\.txt: .*listed/ });
  });
});
