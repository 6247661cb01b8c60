import { z } from 'zod';
import type { ResourceDefinition } from './definition.ts';

/** A structural JSON schema (OpenAPI 3.0) of a custom resource definition. */
export interface StructuralSchema {
  description?: string;
  type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  format?: string;
  default?: unknown;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  anyOf?: StructuralSchema[];
  items?: StructuralSchema;
  required?: string[];
  properties?: Record<string, StructuralSchema>;
  additionalProperties?: StructuralSchema;
  'x-kubernetes-validations'?: { rule: string; message: string; fieldPath?: string; reason?: string }[];
  'x-kubernetes-list-type'?: string;
  'x-kubernetes-list-map-keys'?: string[];
  'x-kubernetes-int-or-string'?: boolean;
}

/** Order of schema keywords in the written definition. */
const order: (keyof StructuralSchema)[] = [
  'description',
  'type',
  'format',
  'x-kubernetes-int-or-string',
  'anyOf',
  'default',
  'enum',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'maxProperties',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-validations',
  'items',
  'required',
  'properties',
  'additionalProperties',
];

/** The structural schema of a zod type. Throws TypeError for types that a custom resource definition cannot express. */
export function structuralSchema(type: z.ZodType): StructuralSchema {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { target: 'openapi-3.0', io: 'input' });
  return structural(schema as Record<string, unknown>, 'schema');
}

function structural(given: Record<string, unknown>, path: string): StructuralSchema {
  // Definitions cannot describe property names; the API server itself checks labels and resource names.
  const { propertyNames: _, ...schema } = given as StructuralSchema & { propertyNames?: unknown };
  const unknown = Object.keys(schema).filter((key) => !order.includes(key as keyof StructuralSchema));
  if (unknown.length > 0) throw new TypeError(`${path}: custom resource definitions do not know ${unknown.join(', ')}`);
  if (schema['x-kubernetes-int-or-string']) schema.anyOf = [{ type: 'integer' }, { type: 'string' }];
  else if (schema.anyOf) throw new TypeError(`${path}: a union cannot be structural`);
  if ((schema.additionalProperties as unknown) === false) {
    throw new TypeError(`${path}: unknown fields are pruned, so they cannot be refused here`);
  }
  if (schema.type === 'integer') schema.format = 'int64';
  if (schema.pattern) schema.pattern = schema.pattern.replaceAll('\\/', '/');
  if (schema.items) schema.items = structural({ ...schema.items }, `${path}[]`);
  if (schema.additionalProperties) {
    schema.additionalProperties = structural({ ...schema.additionalProperties }, `${path}.*`);
  }
  if (schema.properties) {
    schema.properties = Object.fromEntries(
      Object.entries(schema.properties).map(([name, one]) => [name, structural({ ...one }, `${path}.${name}`)]),
    );
  }
  return Object.fromEntries(order.flatMap((key) => (schema[key] === undefined ? [] : [[key, schema[key]]])));
}

/** The schema of whole objects of a kind. */
export function objectSchema(definition: ResourceDefinition): StructuralSchema {
  const { longestName, description, dotless } = definition;
  const names = [
    {
      rule: `self.metadata.name.size() <= ${longestName}`,
      message: `metadata.name must be no longer than ${longestName} characters`,
    },
    { rule: "!self.metadata.name.contains('.')", message: 'metadata.name must not contain dots' },
  ];
  return {
    description,
    type: 'object',
    'x-kubernetes-validations': dotless ? names : names.slice(0, 1),
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec: structuralSchema(definition.spec),
      status: structuralSchema(definition.status),
    },
  };
}

/** The CustomResourceDefinition (apiextensions.k8s.io/v1). */
export function customResourceDefinition(definition: ResourceDefinition): Record<string, unknown> {
  const { group, version, kind, plural, singular, shortNames, namespaced, columns } = definition;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, labels: { 'app.kubernetes.io/name': 'hearth' } },
    spec: {
      group,
      names: { kind, listKind: `${kind}List`, plural, singular, shortNames, categories: ['hearth'] },
      scope: namespaced ? 'Namespaced' : 'Cluster',
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: { openAPIV3Schema: objectSchema(definition) },
        },
      ],
    },
  };
}
