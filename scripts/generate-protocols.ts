// Generates TypeScript from the .proto files with buf and ts-proto, both from node_modules: works offline.
// Usage: node scripts/generate-protocols.ts
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { delimiter, join } from 'node:path';

interface Protocol {
  /** Folder under proto/ that holds the .proto files; the same folder is made under `out`. */
  source: string;
  /** Folder of generated code. */
  out: string;
  /** Also write what it imports of google/protobuf, but for the descriptors of its options, which no code imports. */
  imports?: true;
  /** Also write the conversions from and to JSON: records of the store are kept so. */
  json?: true;
}

const root = join(import.meta.dirname, '..');

const protocols: Protocol[] = [
  { source: 'hearth', out: 'common/src/generated', json: true },
  { source: 'etcd', out: 'node-agent/src/store/generated' },
  { source: 'csi', out: 'csi-driver/src/generated', imports: true },
  { source: 'kubelet', out: 'csi-driver/src/generated' },
];

// Clients and servers on grpc-js; 64-bit numbers are bigint, a oneof is a tagged union, enumerations are unions of
// literals (Node strips types but runs no TypeScript enumerations), imports end in .ts.
const options = [
  'outputServices=grpc-js',
  'forceLong=bigint',
  'oneof=unions-value',
  'enumsAsLiterals=true',
  'importSuffix=.ts',
  'env=node',
  'esModuleInterop=true',
];

for (const { source, out, imports, json } of protocols) {
  const template = {
    version: 'v2',
    plugins: [
      {
        local: 'protoc-gen-ts_proto',
        out: join(root, out),
        opt: [...options, `outputJsonMethods=${json === true}`],
        include_imports: imports === true,
        include_wkt: imports === true,
      },
    ],
  };
  rmSync(join(root, out, source), { recursive: true, force: true });
  if (imports) rmSync(join(root, out, 'google'), { recursive: true, force: true });
  execFileSync('buf', ['generate', '--template', JSON.stringify(template), '--path', source], {
    cwd: join(root, 'proto'),
    stdio: 'inherit',
    env: { ...process.env, PATH: `${join(root, 'node_modules/.bin')}${delimiter}${process.env.PATH ?? ''}` },
  });
  if (imports) rmSync(join(root, out, 'google/protobuf/descriptor.ts'));
}
