/** The used part of tar-stream, which has no types. */
declare module 'tar-stream' {
  interface Pack extends NodeJS.ReadableStream {
    entry(header: { name: string; mtime?: Date; mode?: number }, content: string): void;
    finalize(): void;
  }
  export function pack(): Pack;
}
