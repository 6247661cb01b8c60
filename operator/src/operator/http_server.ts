import { HearthError } from '@hearth/common';
import { HealthServer } from '@hearth/common/health';

/** Ready: the replica could lead. */
export class HttpServer extends HealthServer {
  /** The real port. `InUse` when another program listens there. `host` undefined: all addresses. */
  async listen(port: number, host?: string): Promise<number> {
    return await this.bind(
      { port, host },
      (error) =>
        new HearthError(
          error.code === 'EADDRINUSE' ? 'InUse' : 'IoError',
          `the operator cannot listen on port ${port} (${error.message}); stop what does, or set HEARTH_HTTP_PORT`,
        ),
    );
  }
}
