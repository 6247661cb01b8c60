import { objectSchema, type ResourceDefinition, type StructuralSchema } from '@hearth/common/resources';

interface Row {
  path: string;
  schema: StructuralSchema;
  required: boolean;
}

/** docs/reference/api.md: everything in it comes from the schemas. */
export function apiDocument(definitions: readonly ResourceDefinition[]): string {
  const first = definitions[0];
  return [
    '# Custom resources',
    '',
    `<!-- Written by scripts/generate-crds.ts from the schemas in common/src/resources. -->`,
    '',
    `Group \`${first?.group}\`, version \`${first?.version}\`, category \`hearth\`: \`kubectl get hearth\` lists them all. A field that`,
    'is not named here is refused by `kubectl` (strict validation) and dropped by the API server.',
    '',
    'Sizes are written `200Gi`, `1.5T` or `4096`; shares of a file system `70%`; durations `30s`, `10m`, `24h`.',
    'Bytes in status are integers.',
    '',
    '| kind | scope | `kubectl get` | what |',
    '|---|---|---|---|',
    ...definitions.map(
      (one) =>
        `| [${one.kind}](#${one.kind.toLowerCase()}) | ${one.namespaced ? 'namespaced' : 'cluster'} | \`${one.plural}\`, \`${one.shortNames.join('`, `')}\` | ${one.description} |`,
    ),
    ...definitions.flatMap(kindSection),
    '',
  ].join('\n');
}

function kindSection(definition: ResourceDefinition): string[] {
  const schema = objectSchema(definition);
  const { spec, status } = schema.properties ?? {};
  return [
    '',
    `## ${definition.kind}`,
    '',
    `${definition.description} Its name has at most ${definition.longestName} characters.`,
    '',
    '### spec',
    '',
    ...table(spec),
    ...ruleList(schema, spec),
    '',
    '### status',
    '',
    ...table(status),
    '',
    '### Columns',
    '',
    '| column | shown | meaning |',
    '|---|---|---|',
    ...definition.columns.map(
      (one) =>
        `| ${one.name.toUpperCase()} | ${(one.priority ?? 0) > 0 ? 'with `-o wide`' : 'always'} | ${one.description} |`,
    ),
  ];
}

function table(schema: StructuralSchema | undefined): string[] {
  return [
    '| field | type | default | bounds | meaning |',
    '|---|---|---|---|---|',
    ...rows(schema, '').map(({ path, schema: one, required }) => {
      const fallback = one.default === undefined ? (required ? 'required' : '') : code(JSON.stringify(one.default));
      return `| \`${path}\` | ${typeName(one)} | ${fallback} | ${bounds(one)} | ${cell(one.description ?? '')} |`;
    }),
  ];
}

/** The fields below a schema, in its order, with their paths. */
function rows(schema: StructuralSchema | undefined, path: string): Row[] {
  return Object.entries(schema?.properties ?? {}).flatMap(([name, one]) => {
    const here = `${path}${name}`;
    const required = schema?.required?.includes(name) ?? false;
    const below = one.type === 'array' ? rows(one.items, `${here}[].`) : rows(one, `${here}.`);
    return [{ path: here, schema: one, required }, ...below];
  });
}

function typeName(schema: StructuralSchema): string {
  if (schema['x-kubernetes-int-or-string']) return 'quantity';
  if (schema.type === 'array') return `list of ${schema.items ? typeName(schema.items) : 'anything'}`;
  if (schema.additionalProperties) return `map to ${typeName(schema.additionalProperties)}`;
  return schema.format === 'date-time' ? 'time' : (schema.type ?? 'anything');
}

function bounds(schema: StructuralSchema): string {
  const parts: string[] = [];
  const leaf = schema.items ?? schema.additionalProperties ?? schema;
  const keys = schema['x-kubernetes-list-map-keys'];
  if (leaf.enum) parts.push(leaf.enum.map(code).join(', '));
  if (schema.minimum !== undefined && schema.maximum !== Number.MAX_SAFE_INTEGER) {
    parts.push(`${schema.minimum} to ${schema.maximum}`);
  }
  if (schema.maxItems !== undefined) parts.push(`${schema.minItems ?? 0} to ${schema.maxItems} items`);
  if (schema.maxProperties !== undefined) parts.push(`at most ${schema.maxProperties} entries`);
  if (keys) parts.push(`unique ${keys.map(code).join(', ')}`);
  if (leaf.maxLength !== undefined && !leaf.enum && leaf.type === 'string' && leaf.format === undefined) {
    parts.push(`at most ${leaf.maxLength} characters`);
  }
  // Longer ones help people less than the field's description does.
  if (leaf.pattern && leaf.pattern.length <= 60) parts.push(code(leaf.pattern));
  return parts.map(cell).join('; ');
}

/** The rules below schemas, each once, with the field that it is about. */
function ruleList(whole: StructuralSchema, spec: StructuralSchema | undefined): string[] {
  const seen = new Map<string, string>();
  for (const { path, schema } of [{ path: '', schema: { ...whole, properties: {} } }, ...specRules(spec)]) {
    for (const one of schema['x-kubernetes-validations'] ?? []) {
      const field = `${path}${one.fieldPath ?? ''}`;
      seen.set(`${field} ${one.message}`, field === '' ? `- ${one.message}.` : `- ${code(field)}: ${one.message}.`);
    }
  }
  return ['', 'Rules:', '', ...seen.values()];
}

function specRules(schema: StructuralSchema | undefined, path = 'spec'): { path: string; schema: StructuralSchema }[] {
  if (!schema) return [];
  return [
    { path, schema },
    ...specRules(schema.items, `${path}[]`),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, one]) => specRules(one, `${path}.${name}`)),
  ];
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text: string): string => `\`${text}\``;
