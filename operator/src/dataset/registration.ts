import { createHash } from 'node:crypto';
import { type Credentials, Source } from '@hearth/common/generated/hearth/v1/control.ts';

/** What agents are sent of a Dataset. */
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

export const noCredentials: Credentials = { token: '', accessKeyId: '', secretAccessKey: '', sessionToken: '' };

/** Equal for equal choices of files in the same cluster, whatever the credentials are. */
export function choiceOf({ cluster, name, source, include, exclude }: Registration): string {
  return JSON.stringify([cluster, name, Source.toJSON(source), include, exclude]);
}

/** Distinguishes credentials without keeping them. */
export function credentialsDigest(credentials: Credentials | undefined): string {
  const { token, accessKeyId, secretAccessKey, sessionToken } = credentials ?? noCredentials;
  const text = JSON.stringify([token, accessKeyId, secretAccessKey, sessionToken]);
  return createHash('sha256').update(text).digest('hex');
}
