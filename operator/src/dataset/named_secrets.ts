import { Credentials, type MirrorCredentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { type DatasetMirror, type DatasetSpec, type SourceKind, sourceKind } from '@hearth/common/resources';
import { credentialsOf, type SecretReading } from '../secrets/index.ts';
import type { SecretView } from './observation.ts';
import { mirrorOf, noCredentials } from './registration.ts';

export interface NamedSecret {
  name: string;
  kind: SourceKind;
  /** Undefined for the source. */
  mirror: DatasetMirror | undefined;
}

export function namedSecrets({ source, secretRef, mirrors = [] }: DatasetSpec): NamedSecret[] {
  const first = secretRef === undefined ? [] : [{ name: secretRef.name, kind: sourceKind(source), mirror: undefined }];
  const others = mirrors.flatMap((mirror): NamedSecret[] =>
    mirror.secretRef === undefined ? [] : [{ name: mirror.secretRef.name, kind: sourceKind(mirror), mirror }],
  );
  return [...first, ...others];
}

/** A mirror's unusable Secret, which excludes only that mirror. */
export interface UnusableSecret extends NamedSecret {
  view: Exclude<SecretView, { kind: 'found' }>;
}

/** A mirror with an unusable Secret stays without credentials, so that agents read it under no other identity. */
export function joinSecrets(readings: readonly (NamedSecret & { reading: SecretReading })[]): {
  view: SecretView;
  unusable: readonly UnusableSecret[];
  unavailable?: string;
} {
  let first: Credentials = Credentials.fromPartial(noCredentials);
  const mirrors: MirrorCredentials[] = [];
  const unusable: UnusableSecret[] = [];
  for (const { reading, ...named } of readings) {
    const { kind, mirror } = named;
    const view = reading.kind === 'found' ? credentialsOf(kind, reading.data) : reading;
    if (mirror === undefined) {
      if (view.kind !== 'found') return { view, unusable: [] };
      first = view.credentials;
      continue;
    }
    // As with the source, agents keep the earlier credentials.
    if (view.kind === 'unavailable') return { view, unusable: [], unavailable: named.name };
    if (view.kind !== 'found') unusable.push({ ...named, view });
    const credentials = view.kind === 'found' ? view.credentials : undefined;
    mirrors.push({ mirror: mirrorOf(mirror), credentials });
  }
  const credentials = mirrors.length === 0 ? first : { ...first, mirrors: { mirrors } };
  return { view: { kind: 'found', credentials }, unusable };
}
