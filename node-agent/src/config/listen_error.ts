import { HearthError } from '@hearth/common';
import { type Endpoint, formatEndpoint } from './endpoint.ts';

/** Why nothing can listen at the address of the setting `NAME.listen`: `InUse` or `IoError`. */
export function listenError(name: 'health' | 'wire', endpoint: Endpoint, error: NodeJS.ErrnoException): HearthError {
  const place = `the ${name} address ${formatEndpoint(endpoint)}`;
  if (error.code === 'EADDRINUSE') {
    return new HearthError(
      'InUse',
      `${place} is in use by another program; stop it or set ${name}.listen to another port`,
    );
  }
  return new HearthError(
    'IoError',
    `${place} cannot be listened on (${error.message}); set ${name}.listen to an address of this machine`,
  );
}
