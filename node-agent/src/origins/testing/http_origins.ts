import assert from 'node:assert/strict';
import { type ScriptedServer, startServer } from '@hearth/common/testing/origins';
import { createOrigin } from '../create_origin.ts';
import type { Origin, OriginOptions } from '../origin.ts';
import { parseSource } from '../source.ts';
import { listAll } from './list_all.ts';

/** Two scripted web servers, and the origins that a test opens on them. */
export class HttpOrigins implements AsyncDisposable {
  readonly server: ScriptedServer;
  readonly other: ScriptedServer;
  readonly #opened: Origin[] = [];

  private constructor(server: ScriptedServer, other: ScriptedServer) {
    this.server = server;
    this.other = other;
  }

  static async start(): Promise<HttpOrigins> {
    return new HttpOrigins(await startServer(), await startServer());
  }

  open = (text: string, options: OriginOptions = {}, allowPrivate = true, allowWeakValidators = false): Origin => {
    const source = { ...parseSource(text), allowPrivate, allowWeakValidators };
    const origin = createOrigin(source, { attempts: 3, pauseMs: 1, environment: {}, ...options });
    this.#opened.push(origin);
    return origin;
  };

  /** `CODE: MESSAGE` of the error of a failed listing, which must not contain the word secret. */
  failure = async (text: string, options: OriginOptions = {}): Promise<string> => {
    try {
      await listAll(this.open(text, options));
    } catch (thrown) {
      const { code, message } = thrown as { code: string; message: string };
      assert.doesNotMatch(message, /secret/);
      return `${code}: ${message}`;
    }
    return 'no error';
  };

  async [Symbol.asyncDispose](): Promise<void> {
    for (const origin of this.#opened) origin.close();
    await this.server.stop();
    await this.other.stop();
  }
}
