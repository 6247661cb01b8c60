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
 * An http or https URL without user, password and query. Credentials in a URL would be readable in the object, and
 * agents refuse URLs that may contain some.
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
    .describe('Prefix of the keys that belong to the dataset. File names do not contain it.'),
  endpoint: url('Address of a store that is compatible with S3. Absent: AWS.').optional(),
  region: z
    .string()
    .max(64)
    .regex(/^[A-Za-z0-9-]+$/)
    .optional()
    .describe("Region of the bucket. Absent: the region in the node's configuration."),
  pathStyle: z.boolean().default(false).describe('Puts the bucket into the path instead of the host name.'),
});

const http = z.object({
  urls: z
    .array(url('Address of a file, or of an index page when it ends in "/".'))
    .min(1)
    .max(1000)
    .meta(asList)
    .describe('URLs of files, each named by the last part of its path. A URL that ends in "/" is an index page.'),
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
    .describe('SHA-256 of files by name, for servers that send no strong validator.'),
});

const hub = z.object({
  endpoint: url('Address of the hub.').default('https://huggingface.co'),
  repoType: z.enum(['model', 'dataset', 'space']).default('model').describe('Kind of the repository.'),
  repo: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*(\/[A-Za-z0-9][A-Za-z0-9._-]*)?$/)
    .describe('Owner and name of the repository, such as Qwen/Qwen3-8B.'),
  revision: z
    .string()
    .min(1)
    .max(255)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/)
    .default('main')
    .describe('Branch, tag or commit. With refresh the Dataset follows a branch.'),
  layout: z
    .enum(['files', 'hub'])
    .default('files')
    .describe(
      'files: paths are those of the repository. hub: a mount is a cache of huggingface_hub (HF_HUB_CACHE), with ' +
        'refs and snapshots, in which programs find the repository offline.',
    ),
});

const directory = z.object({
  path: absolutePath().describe(
    'Folder with the same content on every node. It must lie below a prefix that the StorageCluster lists.',
  ),
});

const volume = z.object({
  claimName: objectName().describe('Claim of a scratch volume in the namespace of the Dataset.'),
  path: z
    .string()
    .max(1024)
    .regex(/^([^/]+(\/[^/]+)*)?$/)
    .default('')
    .meta(
      rules({
        rule: "!self.split('/').exists(part, part == '.' || part == '..')",
        message: 'must be a path below the root of the volume without "." and ".." in it',
      }),
    )
    .describe('Folder or file in the volume. Empty: the whole volume.'),
});

const sourceKinds = ['s3', 'http', 'hub', 'directory', 'volume', 'selfTest'] as const;
export type SourceKind = (typeof sourceKinds)[number];

const source = z
  .object({
    s3: s3.optional().describe('A bucket of S3 or of a compatible store.'),
    http: http.optional().describe('Files on web servers.'),
    hub: hub.optional().describe('A repository of the Hugging Face hub or of a mirror.'),
    directory: directory.optional().describe('A folder on the nodes, such as a network file system.'),
    volume: volume
      .optional()
      .describe(
        'Files that pods have written into a scratch volume and closed. A revision is those of one moment; agents read ' +
          'them from the nodes that wrote them, for as long as the volume has them.',
      ),
    selfTest: z.object({}).optional().describe('A few files inside every agent, to try an installation.'),
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
    s3: s3.optional().describe('A bucket of S3 or of a compatible store.'),
    http: http.optional().describe('Web servers.'),
    hub: hub
      .optional()
      .describe('A hub, for a Dataset whose source is a hub. Agents read it at the commit of the source.'),
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
    source: source.describe('Origin of the bytes: exactly one kind. Immutable.'),
    mirrors: z
      .array(mirror)
      .max(15)
      .optional()
      .meta(asList)
      .describe(
        'Further places with the same files under the same paths. Agents read from the fastest place, and from another one ' +
          'when it fails. They use a mirror only where the source gives a SHA-256 of the file, or both are S3 with the ' +
          'same ETag. A change of the mirrors makes another revision, whose bytes agents fetch again.',
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
      .describe('Treatment of names that cannot be files, such as a beside a/b, or that are not UTF-8.'),
    weakValidators: z
      .enum(['Refuse', 'Allow'])
      .default('Refuse')
      .describe(
        'Treatment of files for which the origin gives neither a digest nor a strong validator. Agents could mix bytes of two ' +
          'states of such a file when it changes: web servers without strong ETag, hubs whose ETags are not git ids.',
      ),
    reads: z
      .object({
        originWait: duration('0s', '24h')
          .default('5m')
          .describe(
            'How long each read waits for an origin that is away, before it fails with an I/O error and ends programs that ' +
              'map the file (SIGBUS). 0s: it does not wait. Preloads with a deadline wait until then.',
          ),
      })
      .optional()
      .describe('Treatment of reads. Absent: the defaults.'),
    refresh: z
      .object({
        interval: duration('1s', '720h').describe(
          'Time between two requests to the origin: at least 10s, or 1s for a volume.',
        ),
      })
      .optional()
      .describe('Looks for new revisions. Running pods keep their revision. Absent: looks only when the spec changes.'),
    gate: gate
      .optional()
      .describe(
        'Gate of pods that use the Dataset, until its bytes are on a node. Absent: Off, no gate. The annotation ' +
          'hearth.storage/gate of a pod takes precedence.',
      ),
    lastCopy: z
      .enum(['Drop', 'Move'])
      .default('Move')
      .describe(
        'Move: before a node goes the operator copies bytes that no other node holds to another node. Drop: they are fetched ' +
          'from the origin again.',
      ),
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
        rule: '!has(self.secretRef) || !(has(self.source.directory) || has(self.source.selfTest) || has(self.source.volume))',
        message: 'a directory, a volume and the self-test have no credentials',
        fieldPath: '.secretRef',
      },
      {
        rule: '!has(self.mirrors) || !has(self.source.volume)',
        message: 'a volume has no mirrors',
        fieldPath: '.mirrors',
      },
      {
        rule: "!has(self.refresh) || has(self.source.volume) || duration(self.refresh.interval) >= duration('10s')",
        message: 'must be at least 10s for a source that is no volume',
        fieldPath: '.refresh.interval',
      },
      {
        rule: "!has(self.mirrors) || !has(self.source.hub) || !has(self.source.hub.layout) || self.source.hub.layout == 'files'",
        message: 'a hub with the layout hub has no mirrors',
        fieldPath: '.mirrors',
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
  residentBytes: count().describe('Bytes of the present revision on the node.'),
  memoryBytes: count()
    .optional()
    .describe("Bytes of files that are whole in the node's memory, where pods read them. Absent: none."),
  percent: percent().describe('Resident part of the revision in percent, rounded down: 100 is complete.'),
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
    .describe('SHA-256 of the list of files. Volume attributes name the revision by it.'),
  files: count().optional().describe('Files of the present revision.'),
  bytes: count().optional().describe('Size of the present revision.'),
  residentBytes: count()
    .optional()
    .describe('Bytes of the present revision in all caches together: a file on two nodes counts twice.'),
  percent: percent()
    .optional()
    .describe('Resident part of the revision on the fullest node, in percent, rounded down.'),
  nodes: count().optional().describe('Number of nodes with the complete revision.'),
  residency: z
    .array(residency)
    .max(500)
    .optional()
    .meta(keyedBy('node'))
    .describe('Nodes with bytes of the revision, fullest first, at most 500.'),
  refreshedAt: timestamp().optional().describe('Time of the last request to the origin.'),
  warnings: z
    .array(z.string().max(1024))
    .max(20)
    .optional()
    .meta(asList)
    .describe('Warnings about the revision, such as WeakValidator.'),
});

export type DatasetSpec = z.output<typeof datasetSpecSchema>;
export type DatasetStatus = z.output<typeof datasetStatusSchema>;
export type DatasetSource = z.output<typeof source>;
export type DatasetMirror = z.output<typeof mirror>;
export type DatasetResidency = z.output<typeof residency>;

/** A Dataset as the API server returns it, with defaults. */
export interface Dataset {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'Dataset';
  metadata: ObjectMeta;
  spec: DatasetSpec;
  status?: DatasetStatus;
}

/** The kind of a source; the API server admits exactly one. */
export function sourceKind(given: DatasetSource | DatasetMirror): SourceKind {
  const kind = sourceKinds.find((one) => (given as DatasetSource)[one] !== undefined);
  if (kind === undefined) throw new TypeError(`a source has one of ${sourceKinds.join(', ')}`);
  return kind;
}
