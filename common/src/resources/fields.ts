import { z } from 'zod';
import { durationPattern, percentPattern, sizePattern } from './quantity.ts';

/**
 * Fields shared by several resources. `meta` passes into the custom resource definition unchanged, so CEL rules and
 * list types stand beside their fields. Every field is bounded, because the API server refuses definitions whose rules
 * may cost too much.
 */

/** A CEL rule of a custom resource definition; `self` is the value that carries the rule. */
export interface Rule {
  rule: string;
  message: string;
  /** Further path of the field that the error is reported at, such as `.budget`. */
  fieldPath?: string;
  reason?: 'FieldValueInvalid' | 'FieldValueForbidden' | 'FieldValueRequired' | 'FieldValueDuplicate';
}

export const rules = (...list: Rule[]) => ({ 'x-kubernetes-validations': list });
/** A list merged by these keys, which are unique. */
export const keyedBy = (...keys: string[]) => ({
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': keys,
});
/** A list of unique values. */
export const asSet = { 'x-kubernetes-list-type': 'set' };
/** A list or object that is replaced as a whole. */
export const asList = { 'x-kubernetes-list-type': 'atomic' };

/** Numbers of bytes, files and nodes; JSON numbers are exact up to this limit (8 PiB). */
export const count = () => z.int().min(0).max(Number.MAX_SAFE_INTEGER);
/** A sum over all nodes, which may be larger than JSON numbers are exact. */
export const sum = () => z.number().min(0).max(1e18).meta({ type: 'integer', format: 'int64' });
/** A duration in seconds. */
export const seconds = () => z.number().min(0).max(1e9);
export const percent = () => z.int().min(0).max(100);

const dnsLabel = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
export const labelName = (longest = 63) =>
  z
    .string()
    .min(1)
    .max(longest)
    .regex(new RegExp(`^${dnsLabel}$`));
/** Object name: a DNS subdomain. */
export const objectName = (longest = 253) =>
  z
    .string()
    .min(1)
    .max(longest)
    .regex(new RegExp(`^${dnsLabel}(\\.${dnsLabel})*$`));

export const reference = (description: string, longest?: number) =>
  z.object({ name: objectName(longest).describe('Name of the object.') }).describe(description);

/** An absolute path without empty parts, `.` and `..`, with further rules. */
export const absolutePath = (...further: Rule[]) =>
  z
    .string()
    .min(2)
    .max(256)
    .regex(/^(\/[^/]+)+$/)
    .meta(
      rules(
        {
          rule: "!self.split('/').exists(part, part == '.' || part == '..')",
          message: 'must be an absolute path without "." and ".." in it',
        },
        ...further,
      ),
    );

const ipv4 = '((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])';
/** A network: address and prefix length. */
export const network = () =>
  z
    .string()
    .min(3)
    .max(49)
    .regex(
      new RegExp(
        `^(${ipv4}/(3[0-2]|[12]?[0-9])|[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7}/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$`,
      ),
    );

/** `70%` of the file system, or a size. */
export const share = (smallestPercent: number, largestPercent: number, ...further: Rule[]) =>
  z
    .string()
    .min(1)
    .max(26)
    .regex(new RegExp(`${percentPattern}|${sizePattern}`))
    .meta(
      rules(
        {
          rule: `!self.endsWith('%') || (int(self.replace('%', '')) >= ${smallestPercent} && int(self.replace('%', '')) <= ${largestPercent})`,
          message: `must be a share from ${smallestPercent}% to ${largestPercent}%, or a size such as 200Gi`,
        },
        ...further,
      ),
    );

export const size = () => z.string().min(1).max(26).regex(new RegExp(sizePattern));

/** Bytes a second, such as `100Mi`, with further rules. */
export const rate = (...further: Rule[]) =>
  size().meta(
    rules(
      {
        rule: "quantity(self).compareTo(quantity('64Ki')) >= 0",
        message: 'must be at least 64Ki, bytes a second',
      },
      ...further,
    ),
  );

/** `30s`, `10m`, `24h`, within bounds. */
export const duration = (shortest: string, longest: string) =>
  z
    .string()
    .min(2)
    .max(7)
    .regex(new RegExp(durationPattern))
    .meta(
      rules({
        rule: `duration(self) >= duration('${shortest}') && duration(self) <= duration('${longest}')`,
        message: `must be a duration from ${shortest} to ${longest}`,
      }),
    );

/** A number or a Kubernetes quantity such as `500m` or `2Gi`. */
export const quantity = () =>
  z
    .union([z.int(), z.string()])
    .meta({ 'x-kubernetes-int-or-string': true, pattern: '^[0-9]{1,15}(\\.[0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$' });

export const timestamp = () => z.string().max(40).meta({ format: 'date-time' });
