/** Thrown by everything that a dead process would have called. */
export class Crash extends Error {}

/**
 * Lets a process die at one of its steps: its calls of the objects wrapped here are counted, and at the chosen one,
 * before or after its effect, it is dead. Then no call has an effect any more.
 */
export class CrashPoint {
  readonly #step: number;
  readonly #when: 'before' | 'after';
  #calls = 0;
  #dead = false;

  constructor(step: number, when: 'before' | 'after') {
    this.#step = step;
    this.#when = when;
  }

  get reached(): boolean {
    return this.#dead;
  }

  wrap<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (_, name) => {
        const member = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        return (...args: unknown[]) => this.#call(() => member.apply(target, args));
      },
    });
  }

  async #call(effect: () => Promise<unknown>): Promise<unknown> {
    if (this.#dead) throw new Crash('the process is dead');
    const here = this.#calls++ === this.#step;
    if (here && this.#when === 'before') this.#die();
    const result = await effect();
    if (here) this.#die();
    return result;
  }

  #die(): never {
    this.#dead = true;
    throw new Crash('the process dies here');
  }
}
