/** A query of a panel: PromQL, and how its series are called. */
export interface Query {
  expression: string;
  legend?: string;
}

export interface Panel {
  title: string;
  /** For the person who sees the panel: units, and when to worry. */
  description: string;
  kind: 'timeseries' | 'stat' | 'bargauge' | 'table';
  unit: 'bytes' | 'Bps' | 'percentunit' | 'short' | 's' | 'ops' | 'percent';
  queries: Query[];
  /** Of 24. */
  width: number;
}

const rowHeight = 8;
const columns = 24;

/** A dashboard of Grafana 10 or later, laid out from left to right. */
export class Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly rows: readonly { title: string; panels: readonly Panel[] }[];
  /** Label of metrics that a person may choose values of. */
  readonly variables: readonly { name: string; query: string }[];

  constructor(given: Pick<Dashboard, 'uid' | 'title' | 'rows' | 'variables'>) {
    this.uid = given.uid;
    this.title = given.title;
    this.rows = given.rows;
    this.variables = given.variables;
  }

  json(): object {
    return {
      uid: this.uid,
      title: this.title,
      tags: ['hearth'],
      schemaVersion: 39,
      timezone: 'browser',
      refresh: '30s',
      time: { from: 'now-1h', to: 'now' },
      templating: { list: [datasource, ...this.variables.map(variable)] },
      panels: this.#panels(),
    };
  }

  #panels(): object[] {
    const placed: object[] = [];
    let y = 0;
    for (const { title, panels } of this.rows) {
      placed.push({
        id: placed.length + 1,
        type: 'row',
        title,
        collapsed: false,
        gridPos: { x: 0, y, w: columns, h: 1 },
      });
      y += 1;
      let x = 0;
      for (const panel of panels) {
        if (x + panel.width > columns) {
          x = 0;
          y += rowHeight;
        }
        placed.push({ id: placed.length + 1, ...panelJson(panel), gridPos: { x, y, w: panel.width, h: rowHeight } });
        x += panel.width;
      }
      y += rowHeight;
    }
    return placed;
  }
}

const datasource = { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' };
const source = { type: 'prometheus', uid: `\${datasource}` };

function variable({ name, query }: { name: string; query: string }): object {
  return { name, type: 'query', datasource: source, query, refresh: 2, includeAll: true, multi: true, allValue: '.*' };
}

function panelJson({ title, description, kind, unit, queries }: Panel): object {
  return {
    type: kind,
    title,
    description,
    datasource: source,
    fieldConfig: { defaults: { unit, min: 0, ...(unit === 'percentunit' ? { max: 1 } : {}) }, overrides: [] },
    options: kind === 'timeseries' ? { legend: { displayMode: 'list', placement: 'bottom' } } : {},
    targets: queries.map(({ expression, legend }, index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: source,
      expr: expression,
      legendFormat: legend ?? '__auto',
      ...(kind === 'timeseries' ? {} : { instant: true }),
    })),
  };
}
