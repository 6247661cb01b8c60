import {
  type Dashboard as GrafanaDashboard,
  type Panel as GrafanaPanel,
  GraphDrawStyle,
  LegendDisplayMode,
  type RowPanel,
  SortOrder,
  StackingMode,
  TooltipDisplayMode,
  VariableRefresh,
} from '@grafana/schema';

/** A query of a panel: PromQL, and the name that the legend gives its series. */
export interface Query {
  expression: string;
  legend: string;
}

export interface Panel {
  title: string;
  /** For the reader of the panel: units, and when to worry. */
  description: string;
  /** `bars`: events, counted over the time of each bar; bars of several series stand on one another. */
  draw: 'lines' | 'bars';
  unit: 'bytes' | 'Bps' | 'percentunit' | 'short' | 's' | 'reqps';
  /** True where values below 0 mean something; other panels begin at 0. */
  signed?: boolean;
  queries: Query[];
  /** Of 24. */
  width: number;
}

const rowHeight = 8;
const columns = 24;
/** A shorter bar would have fewer than the ten samples that Prometheus takes in this time by default. */
const shortestBar = '5m';

/** A dashboard of Grafana 10 or later, laid out from left to right. */
export class Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly rows: readonly { title: string; panels: readonly Panel[] }[];
  /** Labels of metrics of which a person may choose values. */
  readonly variables: readonly { name: string; query: string }[];

  constructor(given: Pick<Dashboard, 'uid' | 'title' | 'rows' | 'variables'>) {
    this.uid = given.uid;
    this.title = given.title;
    this.rows = given.rows;
    this.variables = given.variables;
  }

  json(): GrafanaDashboard {
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

  #panels(): (GrafanaPanel | RowPanel)[] {
    const placed: (GrafanaPanel | RowPanel)[] = [];
    let y = 0;
    for (const { title, panels } of this.rows) {
      placed.push({
        id: placed.length + 1,
        type: 'row',
        title,
        collapsed: false,
        gridPos: { x: 0, y, w: columns, h: 1 },
        panels: [],
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

type Variable = NonNullable<NonNullable<GrafanaDashboard['templating']>['list']>[number];

const datasource: Variable = { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' };
const source = { type: 'prometheus', uid: `\${datasource}` };

function variable({ name, query }: { name: string; query: string }): Variable {
  return {
    name,
    type: 'query',
    datasource: source,
    query,
    refresh: VariableRefresh.onTimeRangeChanged,
    includeAll: true,
    multi: true,
    allValue: '.*',
  };
}

function panelJson({ title, description, draw, unit, signed, queries }: Panel): GrafanaPanel {
  const lines = { drawStyle: GraphDrawStyle.Line, fillOpacity: 10 };
  const bars = {
    drawStyle: GraphDrawStyle.Bars,
    fillOpacity: 80,
    stacking: { mode: StackingMode.Normal, group: 'A' },
  };
  return {
    type: 'timeseries',
    title,
    description,
    datasource: source,
    ...(draw === 'bars' ? { interval: shortestBar } : {}),
    fieldConfig: {
      defaults: {
        unit,
        ...(signed === true ? {} : { min: 0 }),
        ...(unit === 'percentunit' ? { max: 1 } : {}),
        custom: draw === 'bars' ? bars : lines,
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: LegendDisplayMode.List, placement: 'bottom', showLegend: true, calcs: [] },
      tooltip: { mode: TooltipDisplayMode.Multi, sort: SortOrder.Descending },
    },
    targets: queries.map(({ expression, legend }, index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: source,
      expr: expression,
      legendFormat: legend,
    })),
  };
}
