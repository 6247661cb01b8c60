import { HearthError } from '@hearth/common';
import type { Credentials, Source } from '@hearth/common/generated/hearth/v1/control.ts';
import type { OriginOptions } from '../origins/index.ts';

/** Whether nothing is given: the message that makes credentials forgotten. */
export function isEmpty(credentials: Credentials): boolean {
  return Object.values(credentials).every((value) => value === '');
}

/** How an origin of the source uses a dataset's own credentials. `InvalidArgument` when they are of another kind. */
export function originCredentials(source: Source, own: Credentials): Pick<OriginOptions, 'token' | 'credentials'> {
  const { token, accessKeyId, secretAccessKey, sessionToken } = own;
  switch (source.kind?.$case) {
    case 's3':
      if (accessKeyId === '' || secretAccessKey === '') {
        throw new HearthError(
          'InvalidArgument',
          'an S3 source needs an access key id and a secret access key; give both',
        );
      }
      return { credentials: { accessKeyId, secretAccessKey, ...(sessionToken === '' ? {} : { sessionToken }) } };
    case 'http':
    case 'hub':
      if (token === '') throw new HearthError('InvalidArgument', 'an http or hub source needs a token; give one');
      return { token };
    default:
      throw new HearthError('InvalidArgument', 'this kind of source takes no credentials; leave them out');
  }
}
