import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { HearthError } from '@hearth/common';
import { strongEtag } from './http_probe.ts';
import type { S3Access } from './s3_access.ts';
import { s3Error } from './s3_error.ts';
import type { ListedKey, S3Keys } from './s3_keys.ts';

export interface S3Object {
  key: string;
  size: bigint;
  /** Strong ETag with quotes, whether the server lists quotes or not; '' without one. */
  etag: string;
  modified: Date | undefined;
  /** '' where the server has none. */
  storageClass: string;
}

interface Listed {
  Key?: string | undefined;
  Size?: number | undefined;
  ETag?: string | undefined;
  LastModified?: Date | undefined;
  StorageClass?: string | undefined;
}

const archived = ['GLACIER', 'DEEP_ARCHIVE'];

/**
 * Objects whose keys begin with `prefix`, in pages, in the server's order. Throws like `s3Error` and `S3Keys`, and
 * `Unsupported` for archived objects.
 */
export async function* listObjects(
  access: S3Access,
  prefix: string,
  keys: S3Keys,
  signal: AbortSignal,
): AsyncGenerator<S3Object[]> {
  let token: string | undefined;
  do {
    // Keys may contain characters that XML cannot, so request percent-encoding.
    const input = {
      Bucket: access.context.bucket,
      Prefix: prefix,
      EncodingType: 'url',
      ContinuationToken: token,
    } as const;
    const page = await send(access, () => access.client.send(new ListObjectsV2Command(input), { abortSignal: signal }));
    const listed = (page.Contents ?? []).map((object) => ({ ...object, ...listedKey(object, access) }));
    const decoded = await keys.decode(listed, page.EncodingType);
    yield listed.map((object, at) => s3Object(object, decoded[at] ?? object.key));
    const next = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    if (page.IsTruncated === true && (next === undefined || next === token)) throw endless(access);
    token = next;
  } while (token !== undefined);
}

async function send<Output>(access: S3Access, command: () => Promise<Output>): Promise<Output> {
  try {
    return await command();
  } catch (thrown) {
    throw s3Error(thrown, access.context);
  }
}

function listedKey({ Key, Size }: Listed, access: S3Access): ListedKey {
  if (Key === undefined || Size === undefined) {
    throw new HearthError(
      'ProtocolError',
      `${access.context.host} lists objects without key or size; the agent cannot use this server`,
    );
  }
  return { key: Key, size: BigInt(Size) };
}

function s3Object({ size, ETag, LastModified, StorageClass }: Listed & ListedKey, key: string): S3Object {
  if (archived.includes(StorageClass ?? '')) {
    throw new HearthError(
      'Unsupported',
      `the object ${key} is archived (${StorageClass}) and cannot be read; restore it first, or leave it out of the prefix`,
    );
  }
  const etag = strongEtag({ etag: ETag }) ?? '';
  return { key, size, etag, modified: LastModified, storageClass: StorageClass ?? '' };
}

function endless(access: S3Access): HearthError {
  return new HearthError(
    'ProtocolError',
    `${access.context.host} continues a listing without a new continuation token; the agent cannot use this server`,
  );
}
