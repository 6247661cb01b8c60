import type { Credentials } from '@hearth/common/generated/hearth/v1/control.ts';
import type { SourceKind } from '@hearth/common/resources';

/** Keys of a Secret that a source of this kind needs, and those it may have beside them. */
type SecretKey = Exclude<keyof Credentials, 'mirrors'>;
const keysOf: Record<SourceKind, { needed: readonly SecretKey[]; optional: readonly SecretKey[] }> = {
  s3: { needed: ['accessKeyId', 'secretAccessKey'], optional: ['sessionToken'] },
  http: { needed: ['token'], optional: [] },
  hub: { needed: ['token'], optional: [] },
  directory: { needed: [], optional: [] },
  selfTest: { needed: [], optional: [] },
};

export type CredentialsChoice =
  | { kind: 'found'; credentials: Credentials }
  /** Keys that are not there or have no usable value; the names are no secrets. */
  | { kind: 'keysMissing'; keys: readonly string[]; present: readonly string[] };

/**
 * Credentials in the data of a Secret (values in base64, as the API gives them). Spaces and line ends around a value
 * are cut off: they come from files and never belong to it.
 */
export function credentialsOf(kind: SourceKind, data: Readonly<Record<string, string>>): CredentialsChoice {
  const { needed, optional } = keysOf[kind];
  const values: Credentials = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };
  for (const key of [...needed, ...optional]) values[key] = decode(data[key]);
  const keys = needed.filter((key) => values[key] === '');
  if (keys.length > 0) return { kind: 'keysMissing', keys, present: Object.keys(data).sort() };
  return { kind: 'found', credentials: values };
}

function decode(value: string | undefined): string {
  if (value === undefined) return '';
  const text = Buffer.from(value, 'base64').toString('utf8').trim();
  // A header cannot carry these, so such a value was never a token or a key.
  return [...text].some((character) => character < ' ' || character === '\u007f' || character === '\ufffd') ? '' : text;
}
