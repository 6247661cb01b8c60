import { z } from 'zod';
import {
  absolutePath,
  asList,
  count,
  duration,
  keyedBy,
  objectName,
  percent,
  reference,
  rules,
  timestamp,
} from './fields.ts';
import { gate } from './gate.ts';
import { conditionsSchema, type ObjectMeta, observedGeneration } from './metadata.ts';

/**
 * An http or https address without user, password and query. Credentials do not belong into it: they would be readable
 * in the object, and agents refuse what may be some.
 */
const url = (description: string) =>
  z
    .string()
    .max(2048)
    .regex(/^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/)
    .describe(description);

const s3 = z.object({
  bucket: z
    .string()
    .min(3)
    .max(255)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]$/)
    .describe('Name of the bucket.'),
  prefix: z
    .string()
    .max(1024)
    .default('')
    .describe('Keys that begin with it belong to the dataset; it is cut off their names.'),
  endpoint: url('Address of a store that is compatible with S3. Absent: AWS.').optional(),
  region: z
    .string()
    .max(64)
    .regex(/^[A-Za-z0-9-]+$/)
    .optional()
    .describe("Region of the bucket. Absent: found by the node's configuration."),
  pathStyle: z.boolean().default(false).describe('Whether the bucket stands in the path instead of the host name.'),
});

const http = z.object({
  urls: z
    .array(url('Address of a file, or of an index page when it ends in "/".'))
    .min(1)
    .max(1000)
    .meta(asList)
    .describe('Each is one file, named by the last part of its path; one that ends in "/" is an index page.'),
  sha256: z
    .record(
      z.string(),
      z
        .string()
        .min(64)
        .max(64)
        .regex(/^[0-9a-f]{64}$/),
    )
    .optional()
    .meta({ maxProperties: 1000 })
    .describe('SHA-256 by file name, for servers that give no strong validator.'),
});

const hub = z.object({
  endpoint: url('Address of the hub.').default('https://huggingface.co'),
  repoType: z.enum(['model', 'dataset', 'space']).default('model').describe('Kind of the repository.'),
  repo: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*(\/[A-Za-z0-9][A-Za-z0-9._-]*)?$/)
    .describe('Owner and name, such as Qwen/Qwen3-8B.'),
  revision: z
    .string()
    .min(1)
    .max(255)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/)
    .default('main')
    .describe('A branch, a tag or a commit. Branches are followed with refresh.'),
});

const directory = z.object({
  path: absolutePath().describe(
    'Folder that every node sees with the same content. Must lie below a prefix that the StorageCluster lists.',
  ),
});

const sourceKinds = ['s3', 'http', 'hub', 'directory', 'selfTest'] as const;
export type SourceKind = (typeof sourceKinds)[number];

const source = z
  .object({
    s3: s3.optional().describe('A bucket of S3 or of a store that is compatible with it.'),
    http: http.optional().describe('Files on web servers.'),
    hub: hub.optional().describe('A repository of the Hugging Face hub or of a mirror.'),
    directory: directory.optional().describe('A folder on the nodes, such as a network file system.'),
    selfTest: z.object({}).optional().describe('A few files that every agent carries along, to try an installation.'),
  })
  .meta(
    rules(
      {
        rule: `[${sourceKinds.map((kind) => `has(self.${kind})`).join(', ')}].filter(given, given).size() == 1`,
        message: `exactly one of ${sourceKinds.slice(0, -1).join(', ')} and ${sourceKinds.at(-1)} must be given`,
      },
      {
        rule: 'self == oldSelf',
        message: 'the source of a Dataset cannot be changed; make another Dataset',
        reason: 'FieldValueForbidden',
      },
    ),
  );

const mirrorKinds = ['s3', 'http', 'hub', 'directory'] as const satisfies readonly SourceKind[];

const mirror = z
  .object({
    s3: s3.optional().describe('A bucket of S3 or of a store that is compatible with it.'),
    http: http.optional().describe('Web servers.'),
    hub: hub.optional().describe('A hub, for a Dataset whose source is one. It is read at the commit of the source.'),
    directory: directory.optional().describe('A folder on the nodes.'),
    secretRef: reference(
      "Secret in the namespace of the Dataset with the mirror's own credentials, which go nowhere else. Keys as in " +
        'spec.secretRef.',
    ).optional(),
  })
  .meta(
    rules(
      {
        rule: `[${mirrorKinds.map((kind) => `has(self.${kind})`).join(', ')}].filter(given, given).size() == 1`,
        message: 'exactly one of s3, http, hub and directory must be given',
      },
      {
        rule: '!has(self.secretRef) || !has(self.directory)',
        message: 'a directory has no credentials',
        fieldPath: '.secretRef',
      },
    ),
  );

const globs = (description: string) =>
  z.array(z.string().min(1).max(1024)).max(100).default([]).meta(asList).describe(description);

export const datasetSpecSchema = z
  .object({
    clusterRef: reference('StorageCluster that caches it. May be left out when there is only one.', 40).optional(),
    source: source.describe('Where the bytes come from: exactly one kind. Cannot be changed.'),
    mirrors: z
      .array(mirror)
      .max(15)
      .optional()
      .meta(asList)
      .describe(
        'Further places with the same files under the same paths. Bytes are taken from where they come fastest, and from ' +
          'another place when one fails; from a mirror only where the source gives a SHA-256 of the file, or both are S3 ' +
          'with the same ETag. Other mirrors make another revision, whose bytes are fetched again.',
      ),
    secretRef: reference(
      'Secret in the namespace of the Dataset with the credentials of its origin: token, or accessKeyId and ' +
        'secretAccessKey and perhaps sessionToken. Absent: none; where origins.nodeIdentity of the StorageCluster lists the ' +
        "namespace, the nodes' own cloud identity.",
    ).optional(),
    include: globs('Globs of the files that are wanted; none: all.'),
    exclude: globs('Globs of files that are not wanted. They win over include.'),
    unusableNames: z
      .enum(['Fail', 'Skip'])
      .default('Fail')
      .describe('What happens to names that cannot be files, such as a beside a/b, or that are not UTF-8.'),
    weakValidators: z
      .enum(['Refuse', 'Allow'])
      .default('Refuse')
      .describe(
        'What happens to files for which the origin gives neither a digest nor a strong validator, so that bytes of two ' +
          'states could be mixed when it changes: web servers without strong ETag, hubs whose ETags are not git ids.',
      ),
    refresh: z
      .object({ interval: duration('10s', '720h').describe('How often the origin is asked.') })
      .optional()
      .describe('Looks for new revisions. Pods keep the one they have begun with. Absent: only when the spec changes.'),
    gate: gate
      .optional()
      .describe(
        'What pods that use the Dataset do before its bytes are on a node. Absent: nothing, as with Off. The annotation ' +
          'hearth.storage/gate of a pod wins.',
      ),
    lastCopy: z
      .enum(['Drop', 'Move'])
      .default('Drop')
      .describe('Move: before a node is drained, bytes that no other node holds are copied to another one.'),
  })
  .meta(
    rules(
      {
        rule: '!has(oldSelf.clusterRef) || (has(self.clusterRef) && self.clusterRef == oldSelf.clusterRef)',
        message: 'a Dataset cannot move to another StorageCluster; make another Dataset',
        fieldPath: '.clusterRef',
        reason: 'FieldValueForbidden',
      },
      {
        rule: '!has(self.secretRef) || !(has(self.source.directory) || has(self.source.selfTest))',
        message: 'a directory and the self-test have no credentials',
        fieldPath: '.secretRef',
      },
      {
        rule: '!has(self.mirrors) || has(self.source.hub) || self.mirrors.all(one, !has(one.hub))',
        message: 'a hub can be a mirror of a hub only',
        fieldPath: '.mirrors',
      },
    ),
  );

const residency = z.object({
  node: objectName().describe('Name of the node.'),
  residentBytes: count().describe('Bytes of the present revision there.'),
  percent: percent().describe('The same in percent, rounded down: 100 is complete.'),
});

export const datasetStatusSchema = z.object({
  observedGeneration: observedGeneration().optional(),
  conditions: conditionsSchema().optional(),
  cluster: objectName(40).optional().describe('StorageCluster whose agents know the Dataset.'),
  revision: z.string().max(1024).optional().describe("The origin's name of the present revision, such as a commit."),
  manifest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .max(64)
    .optional()
    .describe('SHA-256 of the list of its files, which names the revision for attributes of volumes.'),
  files: count().optional().describe('Files of the present revision.'),
  bytes: count().optional().describe('Their size.'),
  residentBytes: count().optional().describe('Bytes of it in all caches together: a file on two nodes counts twice.'),
  percent: percent()
    .optional()
    .describe('Part of the revision on the node that has most of it, in percent, rounded down.'),
  nodes: count().optional().describe('Nodes that have all of it.'),
  residency: z
    .array(residency)
    .max(500)
    .optional()
    .meta(keyedBy('node'))
    .describe('The nodes with most bytes of it, at most 500.'),
  refreshedAt: timestamp().optional().describe('When the origin was asked last.'),
  warnings: z
    .array(z.string().max(1024))
    .max(20)
    .optional()
    .meta(asList)
    .describe('What may surprise, such as WeakValidator.'),
});

export type DatasetSpec = z.output<typeof datasetSpecSchema>;
export type DatasetStatus = z.output<typeof datasetStatusSchema>;
export type DatasetSource = z.output<typeof source>;
export type DatasetMirror = z.output<typeof mirror>;
export type DatasetResidency = z.output<typeof residency>;

/** As the API server gives it: defaults are filled in. */
export interface Dataset {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'Dataset';
  metadata: ObjectMeta;
  spec: DatasetSpec;
  status?: DatasetStatus;
}

/** The kind of a source. The API server admits exactly one. */
export function sourceKind(given: DatasetSource | DatasetMirror): SourceKind {
  const kind = sourceKinds.find((one) => (given as DatasetSource)[one] !== undefined);
  if (kind === undefined) throw new TypeError(`a source has one of ${sourceKinds.join(', ')}`);
  return kind;
}
