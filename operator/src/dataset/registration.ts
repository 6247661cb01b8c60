import { createHash } from 'node:crypto';
import { Credentials, Source } from '@hearth/common/generated/hearth/v1/control.ts';

/** The part of a Dataset that agents get. */
export interface Registration {
  cluster: string;
  /** `NAMESPACE.NAME` */
  name: string;
  source: Source;
  include: readonly string[];
  exclude: readonly string[];
  /** Undefined: the nodes' own identity, or none. A secret: never logged or written to the API server. */
  credentials: Credentials | undefined;
}

/** Of the control API: agents that offer it know mirrors and their credentials. */
export const mirrorsFeature = 'mirrors';
/** Feature of agents that lay a hub out as a cache of its library. */
export const hubLayoutFeature = 'hub-layout';

export const noCredentials: Credentials = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };

/** Equal for equal choices of files in the same cluster, whatever the credentials are. */
export function choiceOf({ cluster, name, source, include, exclude }: Registration): string {
  return JSON.stringify([cluster, name, Source.toJSON(source), include, exclude]);
}

/** Credentials of the source alone: for agents of a release that knows no mirrors. */
export function withoutMirrors({ mirrors: _, ...ofSource }: Credentials): Credentials {
  return ofSource;
}

/** Distinguishes credentials without keeping them. */
export function credentialsDigest(credentials: Credentials | undefined): string {
  const text = JSON.stringify(Credentials.toJSON(credentials ?? noCredentials));
  return createHash('sha256').update(text).digest('hex');
}
