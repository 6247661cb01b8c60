import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { z } from 'zod';
import { revocationSchema } from '../clients/record.ts';
import { datasetSchema, resolvingSchema, revisionSchema } from '../datasets/record.ts';
import { nodePrefix, nodeRecord } from '../membership/record.ts';
import { seenSchema } from '../mounts/departed_nodes.ts';
import { mountSchema } from '../mounts/mounts.ts';
import { pinSchema } from '../pins/record.ts';
import { answerSchema, requestSchema } from '../requests/record.ts';
import { statisticsSchema } from '../statistics/record.ts';
import type { Store } from '../store/store.ts';
import { usageSchema } from '../usage/record.ts';
import { volumeSchema } from '../volumes/volume_registry.ts';
import { warmDivisionSchema, warmJobSchema, warmProgressSchema } from '../warm/record.ts';
import {
  deletedVolumeSchema,
  storeIdSchema,
  volumeLeaderSchema,
  writableVolumeSchema,
} from '../writable_volumes/record.ts';
import { RecordTable } from './table.ts';

interface Golden {
  schema: z.ZodObject;
  /** With every field of the schema. */
  whole: string;
  /** Fields that the first release does not always write. */
  optional?: readonly string[];
}

const directory = '{"directory":{"path":"/d"}}';
const mirrored =
  '{"directory":{"path":"/d"},"mirrors":{"sources":[{"s3":{"bucket":"b","prefix":"p","endpoint":"https://e"}}]}}';
const hex = '0123456789abcdef'.repeat(2);
const ended = '"errorCode":"NotFound","message":"m"';

/** Stored records by key prefix. Every later release must read them. */
const goldens: Record<string, Golden> = {
  [nodePrefix]: {
    schema: nodeRecord,
    whole:
      '{"format":1,"node":"n","incarnation":"i","installation":"x","wire":[{"host":"10.0.0.1","port":7527}],"control":"c:1","health":"h:1","socket":"/s","zone":"z","rack":"r","version":"0.1.0","apiVersion":1,"apiFeatures":["f"],"ready":true,"reason":""}',
    optional: [
      'installation',
      'control',
      'health',
      'socket',
      'zone',
      'rack',
      'version',
      'apiVersion',
      'apiFeatures',
      'reason',
    ],
  },
  'stats/': {
    schema: statisticsSchema,
    whole:
      '{"format":1,"node":"n","budgetBytes":"1","usedBytes":"2","freeBytes":"3","pinnedBytes":"4","originBytes":"5","peerBytesReceived":"6","peerBytesSent":"7","corruptBlocks":"8","startedAt":9,"capabilities":[{"name":"volumes","ready":false,"reason":"r","pods":[{"namespace":"s","name":"p","uid":"u","reboundAt":"t"}],"podsLeftOut":1}],"rdma":{"use":"auto","reason":"r","ports":[{"name":"mlx5_0/1","link":"InfiniBand","gid":"fe80::1","mtuBytes":4096,"bitsPerSecond":"10","active":true,"used":true,"bytesReceived":"11","bytesSent":"12","requests":"13","failures":"14","retries":"15","pauses":"16","medianMicroseconds":"17","p99Microseconds":"18","inMessages":true}],"refused":[{"port":"mlx5_1/1","reason":"down"}],"peers":1,"peersOverTcp":2,"peersReason":"r"},"volumes":[{"id":"v","leads":true,"error":"e","bytes":"20","files":"21","sessions":22,"sessionBytes":"23","evictedFiles":"24","evictedYoungFiles":"25","followers":[{"node":"m","listed":true,"lag":"26","error":"r"}]}],"residency":{"d":{"residentBytes":"9223372036854775808","memoryBytes":"19","completeFiles":1,"pinned":true,"dataPath":"view","reason":"","sourcesAside":["the first source: w"]}}}',
    optional: ['capabilities', 'rdma', 'volumes'],
  },
  'usage/': { schema: usageSchema, whole: '{"format":1,"dataset":"d","usedAt":1,"uses":2.5}', optional: ['uses'] },
  'pins/': {
    schema: pinSchema,
    whole: '{"format":1,"node":"n","dataset":"d","manifest":"m","paths":["a"],"owner":"job:o"}',
  },
  'datasets/': {
    schema: datasetSchema,
    whole: `{"format":1,"name":"d","source":${directory},"include":["a"],"exclude":["b"],"manifest":"m","revision":"r","files":1,"bytes":"2","state":"Failed",${ended},"warnings":["w"],"createdAt":3,"credentialed":true,"attempts":4,"lastAttempt":{"unchanged":false,${ended}}}`,
    optional: ['errorCode', 'credentialed'],
  },
  'revisions/': {
    schema: revisionSchema,
    whole: `{"format":1,"dataset":"d","manifest":"m","source":${mirrored},"revision":"r","createdAt":1}`,
  },
  'resolving/': {
    schema: resolvingSchema,
    whole: `{"format":1,"name":"d","node":"n","source":${directory},"filesListed":1,"bytesListed":"2","startedAt":3}`,
  },
  'requests/': {
    schema: requestSchema,
    whole:
      '{"format":1,"id":"1","from":"n","nodes":["n"],"kind":"drop","dataset":"d","manifest":"m","paths":["a"],"owner":"o","moreOwners":["p"],"evict":true,"memoryOnly":true,"keep":[1]}',
    optional: ['moreOwners', 'memoryOnly', 'keep'],
  },
  'answers/': {
    schema: answerSchema,
    whole: `{"format":1,"node":"n","bytesFreed":"1","filesFreed":2,"filesKept":3,"memoryBytesFreed":"4","filesPinned":5,"filesOpen":6,"filesPublished":7,"users":["u"],${ended}}`,
    optional: ['memoryBytesFreed', 'filesPinned', 'filesOpen', 'filesPublished', 'users', 'errorCode'],
  },
  'mounts/': {
    schema: mountSchema,
    whole: '{"format":1,"node":"n","target":"/t","dataset":"d","manifest":"m","volume":"v","dataPath":"daemon"}',
    optional: ['volume', 'dataPath'],
  },
  'revocations/': {
    schema: revocationSchema,
    whole: '{"format":1,"kind":"pod","name":"s/u","revokedAt":1}',
  },
  'seen/': { schema: seenSchema, whole: '{"format":1,"node":"n","at":1}' },
  'volumes/': {
    schema: volumeSchema,
    whole: '{"format":1,"name":"v","dataset":"d","capacityBytes":"1","manifest":"m"}',
  },
  'writable/volumes/': {
    schema: writableVolumeSchema,
    whole: `{"format":1,"name":"v","id":"${hex}","store":"${hex}","kind":"scratch","maxBytes":"1","maxFiles":"2","deadlineMs":10000,"createdAt":3,"epoch":4,"logInstallation":"i","logNode":"n","followers":["m"]}`,
    optional: ['followers'],
  },
  'writable/leaders/': {
    schema: volumeLeaderSchema,
    whole: `{"format":1,"id":"${hex}","node":"n","installation":"i","epoch":1}`,
  },
  'writable/deleted/': { schema: deletedVolumeSchema, whole: `{"format":1,"id":"${hex}","name":"v","deletedAt":1}` },
  'writable/store/': { schema: storeIdSchema, whole: `{"format":1,"id":"${hex}"}` },
  'warm/jobs/': {
    schema: warmJobSchema,
    whole: `{"format":1,"name":"j","dataset":"d","manifest":"m","paths":["a"],"nodes":["n"],"pin":true,"pinOwner":"o","priority":1,"rateLimit":"2","peerRateLimit":"3","createdAt":4,"deadlineAt":5,"verify":"digest","readyWhen":"memory","advice":"cluster","cancelledAt":6,"end":{"state":"Failed",${ended},"at":7}}`,
    optional: ['pinOwner', 'peerRateLimit', 'readyWhen', 'advice', 'deadlineAt', 'cancelledAt', 'end'],
  },
  'warm/progress/': {
    schema: warmProgressSchema,
    whole: `{"format":1,"job":"j","createdAt":1,"node":"n","state":"Failed","bytesTotal":"2","bytesReady":"3","bytesInMemory":"4","filesTotal":4,"filesReady":5,"filesVerified":6,"originBytes":"7","peerBytes":"8","bytesVerified":"9","bytesPerSecond":"10",${ended},"inMemoryAt":11,"storedAt":12}`,
    optional: ['createdAt', 'bytesInMemory', 'bytesVerified', 'errorCode', 'inMemoryAt', 'storedAt'],
  },
  'warm/division/': {
    schema: warmDivisionSchema,
    whole: '{"format":1,"job":"j","shares":{"n":"1"},"goneSince":{"n":2}}',
  },
};

/** Prefixes of all tables, found in the sources. */
function tables(): string[] {
  const folder = join(import.meta.dirname, '..');
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /(?<!\.test)\.ts$/.test(name),
  );
  const prefixes = sources.flatMap((name) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/new RecordTable\([^,]+, ([^,]+),/g)].map(
      ([, prefix = '']) => (prefix === 'nodePrefix' ? nodePrefix : prefix.replaceAll("'", '')),
    ),
  );
  return [...new Set(prefixes)].sort();
}

describe('golden records', () => {
  it('exist for every table', () => {
    assert.deepEqual(tables(), Object.keys(goldens).sort());
  });

  for (const [prefix, { schema, whole, optional = [] }] of Object.entries(goldens)) {
    const table = new RecordTable(undefined as unknown as Store, prefix, schema);
    const decode = (record: object) =>
      table.decode({
        key: `${prefix}x`,
        value: JSON.stringify(record),
        createRevision: 1,
        modRevision: 1,
        version: 1,
        lease: undefined,
      }).value;
    const record = JSON.parse(whole) as Record<string, unknown>;

    it(`${prefix} is read and written back unchanged, with every field`, () => {
      assert.deepEqual(Object.keys(record).sort(), ['format', ...Object.keys(schema.shape)].sort());
      assert.deepEqual(JSON.parse(table.encode(decode(record))), record);
      assert.deepEqual(decode({ ...record, later: { deep: [1] } }), decode(record));
      assert.throws(() => decode({ ...record, needs: ['later'] }), { code: 'Unsupported' });
    });

    it(`${prefix} is read without the fields that the first release omits`, () => {
      const { format: _, ...least } = record;
      for (const name of optional) delete least[name];
      const { format: __, ...written } = JSON.parse(table.encode(decode(least))) as Record<string, unknown>;
      for (const [name, value] of Object.entries(least)) assert.deepEqual(written[name], value, name);
    });
  }
});
