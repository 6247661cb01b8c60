const firstMs = 2_000;
const longestMs = 300_000;

/**
 * How long after so many failures in a row something outside of Kubernetes is tried again, milliseconds: 2 s, doubled
 * for each further failure, at most 5 min.
 */
export function retryDelayMs(failures: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(30, failures - 1));
}
