import assert from 'node:assert/strict';
import { run } from './command.ts';
import { TemporaryFolder } from './temporary_folder.ts';

/** Headless Chromium (Debian package `chromium`) with its own profile. */
export class Chromium {
  readonly #profile = new TemporaryFolder('chromium');

  static async isInstalled(): Promise<boolean> {
    return (await run('chromium', ['--version'])).code === 0;
  }

  /** Returns the page's HTML after its scripts have run, and Chromium's log. */
  async dom(url: string): Promise<{ html: string; log: string }> {
    const { stdout, stderr } = await this.#run('--dump-dom', url);
    return { html: stdout, log: stderr };
  }

  /** Writes a PNG screenshot of the page. Size in pixels. */
  async screenshot(url: string, file: string, size: { width: number; height: number }): Promise<{ log: string }> {
    const { stderr } = await this.#run(`--screenshot=${file}`, `--window-size=${size.width},${size.height}`, url);
    return { log: stderr };
  }

  async remove(): Promise<void> {
    await this.#profile.remove();
  }

  async #run(...words: string[]) {
    const own = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars'];
    const profile = [`--user-data-dir=${this.#profile.path}`, '--no-first-run', '--enable-logging=stderr'];
    const outcome = await run('chromium', [...own, ...profile, ...words]);
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome;
  }
}
