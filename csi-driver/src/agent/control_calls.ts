import type { ControlService } from '@hearth/common/generated/hearth/v1/control.ts';

type Service = typeof ControlService;
export type CallName = {
  [Name in keyof Service]: Service[Name]['responseStream'] extends false ? Name : never;
}[keyof Service];
export type RequestOf<Name extends keyof Service> = Parameters<Service[Name]['requestSerialize']>[0];
export type ResponseOf<Name extends keyof Service> = ReturnType<Service[Name]['responseDeserialize']>;

/**
 * The control API of the agents of one cluster, by whatever way: the operator's connection over TLS fits as well as
 * the socket of the local agent. Errors are `HearthError` with the agent's own code and sentence.
 */
export interface ControlCalls {
  call<Name extends CallName>(
    name: Name,
    request: RequestOf<Name>,
    options: { signal: AbortSignal },
  ): Promise<ResponseOf<Name>>;
}
