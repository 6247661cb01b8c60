import { HearthError } from '@hearth/common';
import * as common from '@hearth/common/health';
import { type Endpoint, formatEndpoint } from '../config/index.ts';

export class HealthServer extends common.HealthServer {
  /** The address with its real port. `InUse` when another program listens there. */
  async listen(endpoint: Endpoint): Promise<string> {
    const { host } = endpoint;
    const port = await this.bind({ host, port: endpoint.port, exclusive: true }, (error) =>
      listenError(endpoint, error),
    );
    return formatEndpoint({ host, port });
  }
}

function listenError(endpoint: Endpoint, error: NodeJS.ErrnoException): HearthError {
  const place = formatEndpoint(endpoint);
  if (error.code === 'EADDRINUSE') {
    return new HearthError(
      'InUse',
      `the health address ${place} is in use by another program; stop it or set health.listen to another port`,
    );
  }
  return new HearthError(
    'IoError',
    `the health server cannot listen on ${place} (${error.message}); set health.listen to an address of this machine`,
  );
}
