/** A rule of Prometheus that says that a person should look. */
export interface Alert {
  /** In upper camel case, beginning with Hearth. */
  name: string;
  /** `critical`: readers or starting pods suffer now. `warning`: somebody should look today. `info`: good to know. */
  severity: 'critical' | 'warning' | 'info';
  expression: string;
  /** How long the expression must hold, as Prometheus writes durations; `0m`: at once. */
  holds: string;
  /** One line, with the labels of the series in it. */
  summary: string;
  /** Sentences for the runbook: why the alert fires, and how readers notice. */
  meaning: string;
  /** Sentences for the runbook: steps of the person who is called. */
  action: string;
  /** Series by which the rule's test makes the alert fire: name and values, one a minute. */
  fires: { series: string; values: string }[];
  /** The same with values by which it does not fire. */
  stays: { series: string; values: string }[];
}

/** How much a counter grew in a window, for each value of these labels; nothing where it did not. */
export function growth(counter: string, window: string, labels: string): string {
  return `sum by (${labels}) (increase(${counter}[${window}])) > 0`;
}

/**
 * The same of a counter whose series begin with their first event, which `increase` alone would miss. `witness`: a metric
 * that the same program has from its start, so that programs that were not looked at before do not count.
 */
export function growthOfEvents(counter: string, window: string, labels: string, witness: string): string {
  const begun = `(${counter} unless ${counter} offset ${window}) and on (instance) (${witness} offset ${window})`;
  return `sum by (${labels}) (increase(${counter}[${window}]) > 0 or ${begun}) > 0`;
}
