import * as common from '@hearth/common/health';
import { type Endpoint, formatEndpoint, listenError } from '../config/index.ts';

export class HealthServer extends common.HealthServer {
  /** Returns the address with its bound port. Throws `InUse` when another program listens there. */
  async listen(endpoint: Endpoint): Promise<string> {
    const { host } = endpoint;
    const port = await this.bind({ host, port: endpoint.port, exclusive: true }, (error) =>
      listenError('health', endpoint, error),
    );
    return formatEndpoint({ host, port });
  }
}
