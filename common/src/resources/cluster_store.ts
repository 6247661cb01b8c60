import { z } from 'zod';
import { asSet, objectName, reference, rules, size } from './fields.ts';

const etcdStorage = z
  .object({
    emptyDir: z
      .object({})
      .optional()
      .describe('Data on the disk of the node, lost with the pod. Agents rebuild lost data.'),
    storageClassName: objectName().optional().describe("Storage class of the volumes. Absent: the cluster's default."),
    size: size().optional().describe('Size of each volume.'),
  })
  .meta(
    rules(
      {
        rule: 'has(self.emptyDir) != has(self.size)',
        message: 'exactly one of emptyDir and size must be given',
      },
      {
        rule: '!has(self.storageClassName) || has(self.size)',
        message: 'storageClassName requires size',
        fieldPath: '.storageClassName',
      },
    ),
  );

const etcd = z
  .object({
    replicas: z
      .int()
      .min(1)
      .max(3)
      .default(1)
      .meta(rules({ rule: 'self != 2', message: 'must be 1 or 3: two members survive no failure' }))
      .describe('Number of members: 1, or 3 to survive the loss of one.'),
    storage: etcdStorage.default({ emptyDir: {} }).describe("Place of the members' data. Agents rebuild lost data."),
  })
  .meta(
    rules({
      rule: 'self == oldSelf',
      message:
        'the members of a store cannot be changed in place; give other endpoints, or make another StorageCluster',
      reason: 'FieldValueForbidden',
    }),
  );

export const store = z
  .object({
    etcd: etcd.optional().describe('An etcd that the operator runs.'),
    endpoints: z
      .array(
        z
          .string()
          .max(280)
          .regex(/^https?:\/\/([A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,45}\]):[0-9]{1,5}$/),
      )
      .min(1)
      .max(9)
      .optional()
      .meta({
        ...asSet,
        ...rules({
          rule: "self.all(one, one.startsWith('https:')) || self.all(one, one.startsWith('http:'))",
          message: 'all endpoints must be https, or all http',
        }),
      })
      .describe('Client addresses of an etcd that you run yourself, such as https://10.0.0.1:2379.'),
    secretRef: reference(
      "Secret in the operator's namespace with tls.crt, tls.key and ca.crt for the endpoints.",
    ).optional(),
  })
  .meta(
    rules(
      {
        rule: 'has(self.etcd) != has(self.endpoints)',
        message: 'exactly one of etcd and endpoints must be given',
      },
      {
        rule: '!has(self.secretRef) || has(self.endpoints)',
        message: 'secretRef requires endpoints; the operator makes the certificates of its own etcd',
        fieldPath: '.secretRef',
      },
    ),
  );
