export { KubeletRegistration, type KubeletRegistrationOptions } from './kubelet_registration.ts';
