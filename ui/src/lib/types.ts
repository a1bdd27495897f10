// What the manager's API takes and returns. `schema.ts` is made from the API's own description; here are the names by which the pages
// know it.

import type { components } from './schema.ts';

type Schemas = components['schemas'];

export type Role = Schemas['Role'];
export type Me = Schemas['Caller'];
export type Interface = Schemas['Interface'];
export type Facts = Schemas['Facts'];
export type Permits = Schemas['Permits'];
export type Rates = Schemas['Rates'];
export type Host = Schemas['Host'];
export type Group = Schemas['Group'];
export type Code = Schemas['Code'];
export type Asked = Schemas['Asked'];
export type Answer = Schemas['Answer'];
export type RunState = Schemas['RunState'];
export type Run = Schemas['Run'];
export type RunEvent = Schemas['RunEvent'];
export type Client = Extract<RunEvent, { event: 'client' }>;
export type Finished = Schemas['Finished'];
export type Results = Schemas['Results'];
export type Preview = Schemas['Preview'];
export type NewRun = Schemas['NewRun'];
export type AuditEntry = Schemas['AuditEntry'];
export type Release = Schemas['Release'];
export type Ring = Schemas['Ring'];
export type NewRollout = Schemas['NewRollout'];
export type RolloutState = Schemas['RolloutState'];
export type HostState = Schemas['HostState'];
export type RolloutChange = Schemas['RolloutChange'];
export type Rollout = Schemas['Rollout'];
export type Change = Schemas['Change'];
export type NewDelivery = Schemas['NewDelivery'];
export type DeliveryState = Schemas['DeliveryState'];
export type ReceiverState = Schemas['ReceiverState'];
export type Delivery = Schemas['Delivery'];
export type CheckKind = Schemas['CheckKind'];
export type NewCheck = Schemas['NewCheck'];
export type Finding = Schemas['DoctorFinding'];
export type CheckedHost = Schemas['CheckedHost'];
export type PairState = Schemas['PairState'];
export type Pair = Schemas['Pair'];
export type Check = Schemas['Check'];
