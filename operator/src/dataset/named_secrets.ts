import { Credentials, type MirrorCredentials } from '@hearth/common/generated/hearth/v1/control.ts';
import { type DatasetMirror, type DatasetSpec, type SourceKind, sourceKind } from '@hearth/common/resources';
import { credentialsOf, type SecretReading } from '../secrets/index.ts';
import type { SecretView } from './observation.ts';
import { noCredentials } from './registration.ts';
import { mirrorOf } from './source.ts';

/** A Secret that a Dataset names, and what its credentials are for. */
export interface NamedSecret {
  name: string;
  kind: SourceKind;
  /** Undefined: the source. */
  mirror: DatasetMirror | undefined;
}

/** In the order of the spec, that of the source first. */
export function namedSecrets({ source, secretRef, mirrors = [] }: DatasetSpec): NamedSecret[] {
  const first = secretRef === undefined ? [] : [{ name: secretRef.name, kind: sourceKind(source), mirror: undefined }];
  const others = mirrors.flatMap((mirror): NamedSecret[] =>
    mirror.secretRef === undefined ? [] : [{ name: mirror.secretRef.name, kind: sourceKind(mirror), mirror }],
  );
  return [...first, ...others];
}

/** A Secret of a mirror that cannot be used: the mirror is not read then, and nothing else suffers. */
export interface UnusableSecret extends NamedSecret {
  view: Exclude<SecretView, { kind: 'found' }>;
}

/**
 * Of the source's Secret what it is; where that is found, or there is none, the credentials that all hold together. A mirror
 * whose Secret cannot be used is among them without credentials, so that agents read it by no other identity.
 */
export function joinSecrets(readings: readonly (NamedSecret & { reading: SecretReading })[]): {
  view: SecretView;
  unusable: readonly UnusableSecret[];
  /** The name of the Secret that cannot be read now. */
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
    // Not known now: what agents were given stands, as with the source's.
    if (view.kind === 'unavailable') return { view, unusable: [], unavailable: named.name };
    if (view.kind !== 'found') unusable.push({ ...named, view });
    const credentials = view.kind === 'found' ? view.credentials : undefined;
    mirrors.push({ mirror: mirrorOf(mirror), credentials });
  }
  const credentials = mirrors.length === 0 ? first : { ...first, mirrors: { mirrors } };
  return { view: { kind: 'found', credentials }, unusable };
}
